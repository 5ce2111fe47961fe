"""The allocation of a testbed: one job of whole nodes, which does nothing but hold them."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import Refused
from ...host import lease, owned
from .site import ENVIRONMENT, Site

LOOK_S = 1.0
KEEPER, KEPT_S = "strata-keeper", 60.0
# Lives as long as the job, and longer than who starts it.
APART = 'setsid "$@" </dev/null >/dev/null 2>&1 &'
RUNNING, ENDING = "RUNNING", "COMPLETING"
FORMAT = "%A|%T|%N|%r|%S|%h"
WHOLE_NODES = "NO"  # what squeue says to whether others may have a part of a job's nodes
# As sbatch says it of a job that it was only asked about.
WOULD = re.compile(r"to start at (?P<when>\S+) .*?on nodes? (?P<nodes>\S+)")
# A pattern in Slurm's words, the rule in ours, and the next step.
CAUSES = (
    (
        r"[Ii]nvalid partition|partition.*(not available|down|inactive)",
        "the site has the partition, and it is up",
        "sinfo lists those that there are: set slurm_partition",
    ),
    (
        r"[Ii]nvalid account",
        "the account may use the partition, and is one of yours",
        "sacctmgr show associations user=$USER lists yours: set slurm_account",
    ),
    (
        r"[Ii]nvalid qos",
        "the quality of service is one that the account may use",
        "sacctmgr show qos lists them: see slurm_options",
    ),
    (
        r"time limit",
        "the time is within the partition's limit",
        "sinfo shows TIMELIMIT: set slurm_time; a run that is cut short goes on with its command",
    ),
    (
        r"[Ii]nvalid feature",
        "nodes of the site have the feature that slurm_constraint names",
        "sinfo --format='%N %f' lists them",
    ),
    (
        r"[Nn]ode count|[Nn]ode configuration|[Mm]ore processors",
        "the partition has as many nodes as the testbed has hosts, of the kind that is asked for",
        "sinfo --Node --long lists them: ask for fewer hosts, or for others",
    ),
)
# Why a job waits that will never begin, where the site does not refuse it at once.
NEVER = re.compile(r"Invalid|BadConstraints|Partition(Time|Node)Limit|NotAllowed|MaxTimePerJob")
UNKNOWN = "compare slurm_* in the inventory with what the site's documentation asks of a job"


@dataclass(frozen=True)
class Asked:
    """An allocation: `minutes` of so many whole `nodes`. What is '' is left to the site.

    `given` is the number of a job that is somebody's already, and used as it is; 0 for none.
    """

    name: str
    nodes: int
    minutes: int
    partition: str = ""
    account: str = ""
    constraint: str = ""
    options: tuple[str, ...] = ()
    given: int = 0

    def arguments(self) -> list[str]:
        """Those of sbatch."""
        named = {
            "partition": self.partition,
            "account": self.account,
            "constraint": self.constraint,
        }
        return [
            f"--job-name={self.name}",
            f"--nodes={self.nodes}",
            f"--ntasks={self.nodes}",
            *("--exclusive", "--mem=0", "--no-requeue", "--chdir=/", "--output=/dev/null"),
            f"--time={self.minutes}",
            *(f"--{option}={value}" for option, value in named.items() if value),
            *self.options,
        ]


@dataclass(frozen=True)
class Job:
    """One that has not ended, as squeue lists it."""

    id: int
    state: str
    nodes: str
    reason: str
    start: str
    shared: str


def minutes(seconds: float) -> int:
    """Slurm counts in these."""
    return math.ceil(seconds / 60)


def read(listed: str) -> list[Job]:
    """The jobs in what squeue says in FORMAT, the oldest first. Raises Refused for other words."""
    jobs = []
    for line in listed.splitlines():
        fields = line.strip().split("|")
        if len(fields) != FORMAT.count("|") + 1 or not fields[0].isdigit():
            raise Refused(
                "squeue lists jobs in the format that it is asked for",
                given=repr(line[:200]),
                then="look at the version: squeue --version",
            )
        jobs.append(Job(int(fields[0]), *fields[1:]))
    return sorted(jobs, key=lambda job: job.id)


def found(site: Site, names: Sequence[str]) -> list[Job]:
    """This account's jobs of these names that have not ended. Raises Refused."""
    asked = ["squeue", "--me", "--noheader", f"--name={','.join(names)}", f"--format={FORMAT}"]
    return read(site.run(asked))


def holding(jobs: Sequence[Job]) -> Job | None:
    """The oldest that holds its nodes, or will. One that is being ended does neither."""
    return next((job for job in jobs if job.state != ENDING), None)


def there(site: Site, asked: Asked) -> Job | None:
    """The job that holds the nodes already, or is about to. Raises Refused."""
    if not asked.given:
        return holding(found(site, [asked.name]))
    listed = ["squeue", "--noheader", f"--jobs={asked.given}", f"--format={FORMAT}"]
    done = site.ask(listed)
    jobs = read(done.stdout) if done.returncode == 0 else []
    if not jobs or jobs[0].state != RUNNING:
        raise Refused(
            "the job that is given runs",
            example="sbatch --nodes=2 --exclusive --wrap 'ansible-playbook site.yml -i site'",
            given=f"slurm_job: {asked.given}, {jobs[0].state if jobs else 'which has ended'}",
            then="leave slurm_job out: one is then asked for",
        )
    if jobs[0].shared != WHOLE_NODES:
        raise Refused(
            "the job that is given has whole nodes: what others run there would be measured too",
            example="sbatch --nodes=2 --exclusive …",
            given=f"job {asked.given} on {jobs[0].nodes}, which squeue calls {jobs[0].shared}",
            then="ask for it with --exclusive",
        )
    return jobs[0]


def refused(said: str) -> Refused:
    """The refusal for what Slurm said to a job that it does not take."""
    words = " ".join(said.split())[:400]
    for pattern, rule, then in CAUSES:
        if re.search(pattern, said):
            return Refused(rule, given=words, then=then)
    return Refused("Slurm takes the job that the inventory asks", given=words, then=UNKNOWN)


def offer(site: Site, asked: Asked) -> tuple[int, str]:
    """The CPUs of each node that would be had, 0 where they differ, and when, for people.

    Nothing is submitted. Raises Refused with Slurm's words where it would not take the job.
    """
    if known := there(site, asked):
        if known.state == RUNNING:
            check_size(known, hosts(site, known), asked)
        return _cpus(site, known.nodes), f"job {known.id} is {known.state}"
    done = site.ask(["sbatch", "--test-only", *asked.arguments()], _script(asked, ""))
    would = WOULD.search(done.stderr)
    if done.returncode != 0 or not would:
        raise refused(done.stderr or done.stdout)
    return _cpus(site, would["nodes"]), f"{would['nodes']} from {would['when']}"


def _cpus(site: Site, nodes: str) -> int:
    if not nodes:
        return 0
    said = site.run(["sinfo", "--noheader", "--Node", f"--nodes={nodes}", "--format=%c"]).split()
    return int(said[0]) if len(set(said)) == 1 and said[0].isdigit() else 0


def submit(site: Site, asked: Asked, keeper: str) -> int:
    """The id of the job that will hold the nodes. Raises Refused."""
    given = _script(asked, keeper)
    done = site.ask(["sbatch", "--parsable", *asked.arguments()], given)
    number = done.stdout.strip().partition(";")[0]
    if done.returncode != 0 or not number.isdigit():
        raise refused(done.stderr or done.stdout)
    return int(number)


def keep(site: Site, job: Job, asked: Asked, keeper: str) -> bool:
    """Have the keepers in a job that was given, too; whether there were none. Raises Refused."""
    look = ["squeue", "--steps", "--noheader", f"--jobs={job.id}", "--format=%j"]
    if KEEPER in site.run(look).split():
        return False
    command = _keepers(asked, keeper, f"--jobid={job.id}")
    site.run(["/bin/sh", "-c", APART, "sh", *command])
    deadline = time.monotonic() + KEPT_S
    while KEEPER not in site.run(look).split():
        if time.monotonic() > deadline:
            raise Refused(
                "a job lets its account start steps on all of its nodes",
                given=f"job {job.id}: no step {KEEPER} within {KEPT_S:.0f} s",
                then=f"see what this says: srun --jobid={job.id} --overlap hostname",
            )
        time.sleep(LOOK_S)
    return True


def _script(asked: Asked, keeper: str) -> str:
    """What a job runs that is asked for: its keepers, until it is ended."""
    return f"#!/bin/sh\nexec {shlex.join(_keepers(asked, keeper))}\n"


def _keepers(asked: Asked, keeper: str, *where: str) -> list[str]:
    """The command that starts one keeper on each node of a job."""
    nodes = [f"--nodes={asked.nodes}", f"--ntasks={asked.nodes}", "--overlap"]
    how = [
        f"--job-name={KEEPER}",
        "--mem=0",
        "--mpi=none",
        "--chdir=/",
        "--quiet",
        "--input=none",
        f"--export={ENVIRONMENT}",
    ]
    return ["srun", *where, *nodes, *how, "/bin/sh", "-c", keeper]


def keeper(state_dir: Path, become: bool) -> str:
    """Holds a node, and removes what Strata made there when Slurm ends the job, however it does.

    Slurm tells every step (SIGTERM) and waits (KillWait, 30 s unless the site sets another).
    """
    sudo = "sudo -n " if become else ""
    state = shlex.quote(str(state_dir))
    own = f"{lease.ROOT}" if become else f"{lease.SHARED}/{lease.PREFIX}$(id -u)"
    parts = " ".join(f"{state}/{name}" for name in owned.MADE["state"])
    return (
        "leave() {\n"
        f"  if {sudo}test -f {state}/{owned.MARKER}; then\n"
        f"    {sudo}rm -rf --one-file-system {parts} {state}/{owned.MARKER}\n"
        f"    {sudo}rmdir {state}\n"
        "  fi\n"
        f"  {sudo}rm -rf --one-file-system {own}\n"
        "  exit 0\n"
        "}\n"
        "trap leave TERM\n"
        "while :; do sleep 3600 & wait $!; done\n"
    )


def hosts(site: Site, job: Job) -> list[str]:
    """The names of the nodes of a job that runs."""
    return sorted(site.run(["scontrol", "show", "hostnames", job.nodes]).split())


def check_size(job: Job, held: Sequence[str], asked: Asked) -> None:
    """Raises Refused where a job that is there is not what the inventory asks."""
    if len(held) != asked.nodes:
        raise Refused(
            "an allocation has a node for each host, as it is not changed while it lasts",
            given=f"job {job.id} has {', '.join(held)}, the testbed {asked.nodes} hosts",
            then="name as many hosts, or end the job: playbooks/teardown.yml ends one of Strata's",
        )


def wait(site: Site, asked: Asked, number: int, patience_s: float) -> Job:
    """The job once it runs.

    Raises Refused where it ends before, and where it has not begun after `patience_s` seconds.
    """
    deadline = time.monotonic() + patience_s
    while True:
        job = there(site, asked)
        if job is None or job.id != number:
            raise Refused(
                "the job holds its nodes until it is ended",
                given=f"job {number} has ended: {_end(site, number)}",
                then=f"scontrol show job {number} says more; the same command asks for another",
            )
        if job.state == RUNNING:
            return job
        if NEVER.search(job.reason):
            raise Refused(
                "a job that is queued can begin some day",
                given=f"job {number} is {job.state}: {job.reason}",
                then="cancel it (playbooks/teardown.yml), and ask for what the site allows",
            )
        if time.monotonic() > deadline:
            raise Refused(
                f"the job begins within slurm_patience, {patience_s:.0f} s",
                given=f"job {number} is {job.state}: {job.reason}; expected {job.start}",
                then="it stays in the queue, and the same command goes on with it; "
                "playbooks/teardown.yml cancels it",
            )
        time.sleep(LOOK_S)


def _end(site: Site, number: int) -> str:
    said = site.ask(["scontrol", "--oneliner", "show", "job", str(number)]).stdout
    kept = re.findall(r"\b(?:JobState|Reason|ExitCode)=\S+", said)
    return ", ".join(kept) or "Slurm knows it no more"


def cancel(site: Site, names: Sequence[str], patience_s: float) -> bool:
    """End every job of these names; whether there was one. Raises Refused where one stays."""
    there = found(site, names)
    if not there:
        return False
    site.run(["scancel", *(str(job.id) for job in there)])
    deadline = time.monotonic() + patience_s
    while left := found(site, names):
        if time.monotonic() > deadline:
            raise Refused(
                f"a job that is cancelled ends within {patience_s:.0f} s",
                given=", ".join(f"job {job.id} is {job.state}" for job in left),
                then="the same command looks again; a node that hangs is the site's to drain",
            )
        time.sleep(LOOK_S)
    return True
