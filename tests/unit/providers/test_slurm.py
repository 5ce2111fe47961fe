"""The provider slurm without a site: its commands, and the words of Slurm 22.05.8 on Debian 12."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.host import owned
from strata.providers import remote
from strata.providers.slurm import job, site
from strata.providers.slurm.carry import carry
from strata.providers.slurm.site import Site

ASKED = job.Asked("strata-mine", 2, 120, partition="batch", options=("--gres=gpu:1",))
LISTED = (
    "12|PENDING||Resources|2026-11-23T01:00:00|NO\n"
    "7|RUNNING|node[1-2]|None|2026-11-23T00:10:00|NO\n"
)


def test_what_is_not_named_is_left_to_the_site() -> None:
    given = ASKED.arguments()
    assert "--partition=batch" in given and given[-1] == "--gres=gpu:1"
    assert {"--nodes=2", "--time=120", "--exclusive", "--no-requeue"} <= set(given)
    assert not [one for one in given if one.startswith(("--account", "--constraint"))]


@pytest.mark.parametrize(("seconds", "minutes"), [(60, 1), (61, 2), (7200, 120)])
def test_slurm_counts_in_whole_minutes(seconds: float, minutes: int) -> None:
    assert job.minutes(seconds) == minutes


def test_jobs_are_read_the_oldest_first() -> None:
    assert [one.id for one in job.read(LISTED)] == [7, 12]
    assert job.read(LISTED)[0].nodes == "node[1-2]" and job.read("") == []


def test_a_job_that_is_being_ended_holds_nothing() -> None:
    ending = "3|COMPLETING|node[1-2]|None|2026-11-23T00:10:00|NO\n"
    assert job.holding(job.read(ending)) is None
    assert job.holding(job.read(ending + LISTED)) == job.read(LISTED)[0]


@pytest.mark.parametrize("line", ["slurm_load_jobs error", "x|RUNNING|n|None|now|NO", "7|RUNNING"])
def test_other_words_of_squeue_are_refused(line: str) -> None:
    with pytest.raises(Refused, match="in the format that it is asked for"):
        job.read(line)


def test_a_login_node_is_given_each_argument_as_it_is(tmp_path: Path) -> None:
    assert Site().argv(["sbatch", "a b"]) == ["sbatch", "a b"]
    argv = Site("me@login", ("-F", "file")).argv(["sbatch", "--wrap=a 'b' $c"])
    assert argv[0] == "ssh" and argv[-2] == "me@login" and {"-F", "file"} < set(argv)
    assert shlex.split(argv[-1]) == ["sbatch", "--wrap=a 'b' $c"]


def test_a_machine_without_slurm_is_told_to_name_a_login_node() -> None:
    with pytest.raises(Refused, match="example: slurm_login"):
        Site().ask(["strata-no-such-command"])


def run(command: str) -> tuple[int | None, bytes, bytes]:
    """A shell command as the step of a job starts it, without the step."""
    step = site.step(7, "node1", command)
    argv = step[step.index("/bin/sh") :]
    done = subprocess.run(argv, input=b"given", capture_output=True, check=False)
    status, said = remote.ended(done.stderr)
    return status, done.stdout, said


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat", (0, b"given", b"")),
        ("echo no >&2; exit 3", (3, b"", b"no\n")),
        ("printf no >&2; exit 137", (137, b"", b"no")),
        (f"echo '{remote.ENDED} 0' >&2; exit 4", (4, b"", f"{remote.ENDED} 0\n".encode())),
    ],
)
def test_a_step_tells_how_its_command_has_ended(
    command: str, expected: tuple[int, bytes, bytes]
) -> None:
    assert run(command) == expected


def test_a_step_that_went_with_its_job_has_not_ended() -> None:
    said = b"srun: error: Unable to confirm allocation for job 7: Invalid job id specified\n"
    assert remote.ended(said) == (None, said)


def test_a_keeper_removes_what_is_stratas_and_nothing_else(tmp_path: Path) -> None:
    """It is told to end as Slurm does it; what it would remove of leases is this test's."""
    state, other = tmp_path / "state", tmp_path / "other"
    for folder in (state / "images", state / "theirs", other / "images"):
        folder.mkdir(parents=True)
    (state / owned.MARKER).touch()
    for folder in (state, other):
        script = job.keeper(folder, become=False).replace("/tmp/strata-", f"{tmp_path}/lease-")
        assert str(tmp_path / "lease-") in script
        script = script.replace("trap leave TERM", "trap leave TERM; echo ready")
        with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE) as keeper:
            assert keeper.stdout and keeper.stdout.readline() == b"ready\n"
            children = f"/proc/{keeper.pid}/task/{keeper.pid}/children"
            while not (sleeping := Path(children).read_text().split()):
                pass
            keeper.terminate()
            subprocess.run(["kill", *sleeping], check=True)
            assert keeper.wait() == 0
    assert sorted(path.name for path in state.iterdir()) == ["theirs"]
    assert (other / "images").is_dir()


def test_what_slurm_would_do_is_read() -> None:
    for said, nodes in (
        ("to start at 2026-11-23T00:04:51 using 4 processors on nodes node[1-2]", "node[1-2]"),
        ("to start at 2026-11-23T00:04:51 using 2 processors on nodes node2", "node2"),
    ):
        would = job.WOULD.search(f"sbatch: Job 1 {said} in partition lab\n")
        assert would and (would["nodes"], would["when"]) == (nodes, "2026-11-23T00:04:51")


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        (
            "sbatch: error: invalid partition specified: large\n"
            "allocation failure: Invalid partition name specified",
            "the site has the partition",
        ),
        ("allocation failure: Invalid feature specification", "that slurm_constraint names"),
        ("allocation failure: Requested node configuration is not available", "as many nodes"),
        (
            "allocation failure: Requested time limit is invalid (missing or exceeds some limit)",
            "within the partition's limit",
        ),
        ("allocation failure: Unspecified error", "Slurm takes the job"),
    ],
)
def test_what_slurm_refuses_is_told_with_the_setting(said: str, rule: str) -> None:
    refused = job.refused(said)
    assert rule in refused.rule and " ".join(said.split()) == refused.given and refused.then


def test_a_job_that_strata_is_in_says_nothing_to_the_commands_of_slurm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "2")
    monkeypatch.setenv("SLURM_CONF", "/srv/slurm.conf")
    told = site.environment()
    assert "SLURM_NTASKS" not in told and told["SLURM_CONF"] == "/srv/slurm.conf"


@dataclass(frozen=True)
class Here(Site):
    """A site whose steps are processes of this machine, and whose queue is told."""

    queue: str = ""

    def argv(self, command: Sequence[str]) -> list[str]:
        if command[0] == "squeue":
            return ["echo", self.queue]
        return list(command[command.index("/bin/sh") :])


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("7|RUNNING|node[1-2]|None|now|NO", ""),
        ("7|PENDING||Resources|now|NO", "the job that is given runs"),
        ("7|RUNNING|node[1-2]|None|now|OK", "whole nodes"),
    ],
)
def test_a_job_that_is_given_runs_on_whole_nodes(queue: str, words: str) -> None:
    asked = replace(ASKED, given=7)
    if not words:
        there = job.there(Here(queue=queue), asked)
        assert there and there.id == 7
        return
    with pytest.raises(Refused, match=words):
        job.there(Here(queue=queue), asked)


def test_keepers_that_are_there_are_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    running = job.read(LISTED)[0]
    assert not job.keep(Here(queue=f"interactive\n{job.KEEPER}"), running, ASKED, "true")
    monkeypatch.setattr(job, "KEPT_S", 0.0)
    with pytest.raises(Refused, match="lets its account start steps"):
        job.keep(Here(queue="interactive"), running, ASKED, "true")


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    """Files that only their owner reads, a link, a file that nobody asks for."""
    (tmp_path / "flowers/rose").mkdir(parents=True, mode=0o700)
    for name in ("rose/-1 \u00e4.jpg", "rose/2.jpg", "other.txt"):
        (tmp_path / "flowers" / name).write_text(name)
        (tmp_path / "flowers" / name).chmod(0o600)
    (tmp_path / "flowers/rose/3.jpg").symlink_to("2.jpg")
    return tmp_path / "flowers"


def test_what_is_carried_is_what_is_named(flowers: Path, tmp_path: Path) -> None:
    names = ["rose/-1 \u00e4.jpg", "rose/2.jpg", "rose/3.jpg"]
    (tmp_path / "names").write_bytes(b"".join(name.encode() + b"\0" for name in names))
    there = tmp_path / "a folder"
    there.mkdir()
    carry(Here(), 7, "node1", flowers, tmp_path / "names", there, become=False)
    found = [path for path in sorted(there.rglob("*")) if not path.is_dir()]
    assert [str(path.relative_to(there)) for path in found] == names
    assert all(path.is_file() and not path.is_symlink() for path in found)
    assert found[2].read_text() == "rose/2.jpg"
    assert {path.stat().st_mode & 0o444 for path in found} == {0o444}


@pytest.mark.parametrize(
    ("listed", "folder", "words"),
    [("rose/4.jpg", "there", "rose/4.jpg"), ("rose/2.jpg", "nowhere", "nowhere")],
)
def test_what_is_not_carried_whole_is_refused(
    flowers: Path, tmp_path: Path, listed: str, folder: str, words: str
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "names").write_text(f"{listed}\0")
    with pytest.raises(Refused, match=words):
        carry(Here(), 7, "node1", flowers, tmp_path / "names", tmp_path / folder, become=False)
