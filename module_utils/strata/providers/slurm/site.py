"""The way to a Slurm site: its commands on this machine, or by SSH on a login node of the site.

Nothing but the commands that every user of a site has, as the account that calls them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...errors import Refused
from ..remote import SHELL, ended

# A question to the keyboard would wait for ever; a login node that is gone is given up.
SSH = (
    *("-o", "BatchMode=yes", "-o", "ConnectTimeout=20"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4"),
)
SSH_FAILED = 255
# What the caller's own environment has is not for the node: its home, and where programs are.
ENVIRONMENT = "HOME,USER,LOGNAME,PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Site:
    """`login` is what ssh takes for the login node, '' for this machine; `ssh` are its options."""

    login: str = ""
    ssh: tuple[str, ...] = ()

    def argv(self, command: Sequence[str]) -> list[str]:
        """What this machine starts for a command of the site."""
        if not self.login:
            return list(command)
        return ["ssh", *SSH, *self.ssh, "--", self.login, shlex.join(command)]

    def ask(self, command: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
        """How a command ended, and what it said. Raises Refused where none could be started."""
        try:
            done = subprocess.run(
                self.argv(command),
                input=given,
                capture_output=True,
                text=True,
                check=False,
                env=environment(),
            )
        except FileNotFoundError as error:
            raise Refused(
                "the commands of Slurm are here, or on a login node that is named",
                example="slurm_login: login.example.org",
                given=f"{error.filename} is not on this machine",
                then="start Strata on a login node of the site, or set slurm_login",
            ) from None
        if self.login and done.returncode == SSH_FAILED:
            raise Refused(
                "the login node of the site lets this account in, by a key",
                example="slurm_login: me@login.example.org",
                given=f"{self.login}: {_words(done.stderr)}",
                then=f"make this work first: ssh {self.login} sinfo",
            )
        return done

    def run(self, command: Sequence[str], given: str = "") -> str:
        """What a command says. Raises Refused with its words where it fails."""
        done = self.ask(command, given)
        if done.returncode != 0:
            raise Refused(
                "Slurm does what it is asked",
                given=f"{command[0]}: {_words(done.stderr)}",
                then="sinfo tells whether its daemons answer",
            )
        return done.stdout

    def step(self, job: int, node: str, command: str, **feed: Any) -> Stepped:
        """How a shell command ended on one node of an allocation; `feed` is its standard input."""
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            self.argv(step(job, node, command)),
            capture_output=True,
            check=False,
            env=environment(),
            **feed,
        )
        status, stderr = ended(done.stderr)
        if status is None:
            said = stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            stderr = f"job {job} on {node}: {said}".encode()
        return Stepped(status, done.stdout, stderr)


class Stepped(NamedTuple):
    """A command of a step; `status` is None where the step was never there, or went with its job.

    `stderr` then says so.
    """

    status: int | None
    stdout: bytes
    stderr: bytes


def environment() -> dict[str, str]:
    """This process's, without what a job that it is in itself tells the commands of Slurm."""
    told = re.compile(r"(SLURM|SBATCH|SALLOC|SRUN|SQUEUE|SINFO|SCANCEL)_(?!CONF$)")
    return {name: value for name, value in os.environ.items() if not told.match(name)}


def step(job: int, node: str, command: str) -> list[str]:
    """A shell command on one node of an allocation: with all of it, and beside other steps.

    Its standard error ends with the line that `remote.ended` reads.
    """
    where = [f"--jobid={job}", f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--overlap"]
    how = [
        "--mem=0",
        "--cpu-bind=none",
        "--mpi=none",
        "--chdir=/",
        "--quiet",
        f"--export={ENVIRONMENT}",
    ]
    return ["srun", *where, *how, "/bin/sh", "-c", SHELL, "sh", command]


def _words(text: str) -> str:
    return " ".join(text.split())[:400] or "it says nothing"
