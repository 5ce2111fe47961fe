"""kill -9 at random moments, from an empty state folder on: the same command always goes on.

    ./run-tests long                                    200 kills, hours
    STRATA_KILLS=20 STRATA_SEED=7 ./run-tests long      the moments of another seed, fewer of them

Two runs of `spin`, natively and in Docker, are let through and timed: one from an empty state
folder, one with all in place. Then site.yml is started and killed with all of its process group,
again and again, at moments spread evenly over the life of what it still has to do. A run that gets
through is checked, taken away by teardown, which fails when anything is left, and begun anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from controller import results
from tests.conftest import EXPERIMENTS, LOCAL, REPO, environment

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]

KILLS = int(os.environ.get("STRATA_KILLS", "200"))
SEED = int(os.environ.get("STRATA_SEED", "0")) or random.randrange(1, 10**6)
# Far above what a whole run takes: an attempt that is not killed has this long, and no longer.
PATIENCE_S = 900.0

Say = Callable[[str], None]


class Machine:
    """This machine with a state folder of the test's own, and results that are begun anew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = folder / "state"
        self._runs = 0
        self._kept: dict[Path, str] = {}
        self.stages = Counter[str]()

    @property
    def results(self) -> Path:
        """Of the run that is under way."""
        return self._folder / f"results-{self._runs}"

    @property
    def log(self) -> Path:
        """Of the last attempt."""
        return self._folder / "log"

    @property
    def opened(self) -> bool:
        """Whether the run has got as far as its first slot: all before is in place."""
        return any(self.results.glob("*/run.json"))

    def begin(self) -> None:
        """A new run; what there was of the last one stays to be looked at."""
        self._runs += 1

    def attempt(self, life: float) -> bool:
        """The same command each time, killed when it has lived so long (s); whether it ended.

        An end that is no success fails the test.
        """
        asked = f"-estrata_experiment={EXPERIMENTS}/spin.yml"
        with self._started("site.yml", asked, f"-estrata_results={self.results}") as process:
            try:
                status = process.wait(life)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self.stages[self._stage()] += 1
                self.check_kept()
                return False
        assert status == 0, f"an attempt failed by itself ({status}):\n{self._said()}"
        self.check_kept()
        return True

    def through(self) -> float:
        """Let a run through; how long it took (s)."""
        begin = time.monotonic()
        assert self.attempt(PATIENCE_S), f"it did not end within {PATIENCE_S:g} s:\n{self._said()}"
        assert self.reported()
        self.check_whole()
        return time.monotonic() - begin

    def take_away(self) -> None:
        """Teardown: it fails when anything is left. The controller's cache stays."""
        cache = f"-estrata_cache={self._folder}/no-cache"
        with self._started("playbooks/teardown.yml", cache) as process:
            status = process.wait(PATIENCE_S)
        assert status == 0, f"something is left:\n{self._said()}"
        assert not self._state.exists() or not any(self._state.iterdir())

    def reported(self) -> list[Path]:
        """The runs whose report stands.

        What comes after is a new run: where the report was there before the kill, or was finished
        by a worker of Ansible that lived a moment longer than the rest.
        """
        there = [path.parent for path in self.results.glob("*/run.json")]
        return [run for run in there if results.Run(run).finished()]

    def check_kept(self) -> None:
        """All that was ever seen of any trial is still there, and the same."""
        now = {
            path: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self._folder.glob("results-*/*/trials/[!.]*/*")
        }
        lost = [str(path) for path, content in self._kept.items() if now.get(path) != content]
        assert not lost, f"lost or changed: {lost}"
        self._kept = now

    def check_whole(self) -> None:
        """Every trial of each run whose report stands was measured once, and well."""
        for run in self.reported():
            slots = json.loads((run / "plan.json").read_text())["slots"]
            planned = sorted(trial["trial"] for slot in slots for trial in slot["trials"])
            records = {
                path.parent.name: json.loads(path.read_text())
                for path in run.glob("trials/*/record.json")
            }
            assert sorted(records) == planned
            failed = {n: r["reason"] for n, r in records.items() if r["status"] != "ok"}
            assert not failed, f"measured, and failed: {failed}"

    def count(self) -> int:
        """The records of the run that is under way."""
        return len(list(self.results.glob("*/trials/[!.]*/record.json")))

    @contextmanager
    def _started(self, playbook: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """In a process group of its own, which goes with the test."""
        state = f"-estrata_state_dir={self._state}"
        command = ["ansible-playbook", playbook, *LOCAL, state, *more]
        with self.log.open("wb") as out, _popen(command, out) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def _said(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def _stage(self) -> str:
        """The play in which the last attempt was killed."""
        lines = self.log.read_text(errors="replace").splitlines()
        plays = [line for line in lines if line.startswith("PLAY [")]
        return plays[-1].split("]")[0].removeprefix("PLAY [") if plays else "before the first play"


def _popen(command: list[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=REPO,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """To the terminal, while the test runs."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    return line


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    assert os.geteuid() == 0, "needs root: a root filesystem and Docker cannot be had without"
    made = Machine(tmp_path)
    yield made
    made.take_away()


def test_the_same_command_goes_on_after_every_kill(machine: Machine, say: Say) -> None:
    say(f"\nseed {SEED}, {KILLS} kills; state, results and log of the last attempt: {machine.log}")
    machine.begin()
    machine.through()  # builds the image, where that is not in the cache
    machine.take_away()
    machine.begin()
    whole = machine.through()
    machine.begin()
    rest = machine.through()
    machine.take_away()
    machine.begin()
    say(f"a whole run takes {whole:.0f} s, one with all in place {rest:.0f} s")
    kill_over_and_over(machine, whole, rest, say)
    machine.through()
    machine.check_kept()
    for stage, kills in machine.stages.most_common():
        say(f"{kills:4d} killed in: {stage}")


def kill_over_and_over(machine: Machine, whole: float, rest: float, say: Say) -> None:
    """A moment is drawn from the life of what is left to do: all, or the run alone."""
    chance, begun, kills = random.Random(SEED), time.monotonic(), 0
    while kills < KILLS:
        life = chance.uniform(0.2, rest if machine.opened else whole)
        ended = machine.attempt(life)
        if ended or machine.reported():
            machine.check_whole()
            machine.take_away()
            machine.begin()
            say("    a run got through; the next begins with nothing")
        if ended:
            continue
        kills += 1
        left = (time.monotonic() - begun) / kills * (KILLS - kills)
        say(
            f"kill {kills} of {KILLS} after {life:.1f} s, {machine.count()} records"
            f"  (left: about {left / 60:.0f} min)"
        )
