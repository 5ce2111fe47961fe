"""Who used the CPUs, on files that look like the kernel's, and what is sampled how often."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from strata import files
from strata.host import cgroup, counters, processes, sampler
from strata.host.counters import Counters, Totals
from strata.host.sampler import Sample, Sampler, spent

from tests.conftest import REPO

NOTHING = Totals(*([0.0] * 9))
DAEMON = "strata-test-daemon"  # the kernel keeps 15 characters of it


def sample(mono: float, host: Totals, strata: float = 0.0, **cpu: float | None) -> Sample:
    return Sample(mono, host, strata, {name: Counters(cpu=s) for name, s in cpu.items()})


def totals(busy: float, interrupts: float = 0.0, iowait: float = 0.0, steal: float = 0.0) -> Totals:
    return Totals(busy, interrupts, iowait, steal, 0, 0, 0, 0, 0)


def test_what_nobody_is_known_to_have_used_is_others() -> None:
    before = sample(0, totals(100), strata=7, m0=1.0, m1=1.0, b=20.0)
    after = sample(10, totals(119), strata=8, m0=5.0, m1=4.0, b=26.0)
    assert spent(before, after, {"m0", "m1"}) == sampler.Spent(10, 7.0, 6.0, 1.0, 0.0, 5.0)
    assert spent(before, after, {"b"}) == sampler.Spent(10, 6.0, 7.0, 1.0, 0.0, 5.0)


def test_what_the_platform_runs_is_its_own_cost_and_not_others() -> None:
    before, after = sample(0, totals(100), m=1.0), sample(10, totals(119), m=5.0)
    found = spent(replace(before, platform=3.0), replace(after, platform=7.5), {"m"})
    assert (found.platform, found.others) == (4.5, 10.5)


def test_a_process_of_the_platform_is_known_by_its_name_also_after_its_end() -> None:
    watching = processes.Daemons([DAEMON])
    watching.look()
    assert watching.cpu() == 0.0
    with daemon():
        watching.look()
        used = watching.cpu()
        assert used is not None and used > 0.05
    assert watching.cpu() >= used, "what it used stays"


def test_what_the_platform_used_before_it_was_watched_is_in_no_row() -> None:
    with daemon():
        known = processes.Daemons([DAEMON])
        known.look()
        before, watching = known.cpu(), Sampler([DAEMON])
        watching.watch("m", lambda: Counters(cpu=0.0))
        until_sampled(watching, 2)
        watching.begin()
        until_sampled(watching, 4)
        watching.stop()
    rows = watching.rows({"m"}, 0, float("inf"))
    ends = [row["mono"] for row in rows]
    seconds = [sampler.INTERVAL, *(b - a for a, b in itertools.pairwise(ends))]
    counted = sum(row["platform_cpu"] * s for row, s in zip(rows, seconds, strict=True))
    assert before is not None and counted < before / 2


def until_sampled(watching: Sampler, rows: int) -> None:
    deadline = time.monotonic() + 60
    while len(watching.rows({"m"}, 0, float("inf"))) < rows:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def daemon() -> Iterator[None]:
    """A process of the name DAEMON that has used CPU time, and uses no more."""
    burn = "import sys; sum(range(10_000_000)); print('done', flush=True); sys.stdin.read()"
    named = f"open('/proc/self/comm', 'w').write({DAEMON!r}); {burn}"
    call = [sys.executable, "-c", named]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"done\n"
        yield
        process.stdin.close()


def test_stolen_time_waiting_and_interrupts_are_nobodys() -> None:
    after = totals(10, interrupts=3, iowait=50, steal=40)
    found = spent(sample(0, NOTHING, m=0.0), sample(10, after, m=7.0), {"m"})
    assert (found.trial, found.beside, found.strata, found.others) == (7, 0, 0, 0)


def test_counters_of_unequal_resolution_give_no_negative_time() -> None:
    found = spent(sample(0, NOTHING, m=0.0), sample(1, totals(0.99), m=1.01), {"m"})
    assert found.others == 0.0


def test_a_program_that_was_launched_in_between_began_at_zero() -> None:
    found = spent(sample(0, NOTHING), sample(1, totals(2), m=1.5), {"m"})
    assert (found.trial, found.others) == (1.5, 0.5)


@pytest.mark.parametrize("own", [{"m"}, {"b"}])
def test_where_a_program_does_not_tell_nothing_is_said_of_others(own: set[str]) -> None:
    after = sample(1, totals(2), m=None, b=1.0)
    found = spent(sample(0, NOTHING, m=None, b=0.0), after, own)
    assert found.others is None
    assert (found.trial is None) == (own == {"m"})


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host of its own, in files, that has used nothing yet."""
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "stat").write_text(stat())
    (folder / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 60 kB\n")
    monkeypatch.setattr(counters, "PROC", folder)
    monkeypatch.setattr(processes, "cpu_seconds", lambda _: 0.0)
    return folder


def stat(user: float = 0.0, softirq: float = 0.0, iowait: float = 0.0, steal: float = 0.0) -> str:
    """/proc/stat after so many seconds of each."""
    fields = [user, 0, 0, 1000, iowait, 0, softirq, steal, 0, 0]
    return "cpu  " + " ".join(str(round(s * counters.TICK)) for s in fields) + "\ncpu0 0 0 0 0 0\n"


def version_1(folder: Path, seconds: float) -> None:
    files.write(folder / "cpuacct.usage", f"{round(seconds * 1e9)}\n".encode())


def version_2(folder: Path, seconds: float) -> None:
    files.write(folder / "cpu.stat", f"usage_usec {round(seconds * 1e6)}\nuser_usec 1\n".encode())


@pytest.mark.parametrize("write", [version_1, version_2])
def test_groups_of_both_versions_are_told_from_others(
    proc: Path, tmp_path: Path, write: Callable[[Path, float], None]
) -> None:
    groups = {name: tmp_path / name for name in ("measured", "background")}
    watching = Sampler()
    for name, folder in groups.items():
        folder.mkdir()
        write(folder, 0.5)
        folders = dict.fromkeys(cgroup.V1_CONTROLLERS, folder)
        watching.watch(name, lambda folders=folders: cgroup.counters(folders))  # type: ignore[misc]
    watching.begin()
    write(groups["measured"], 3.5)
    write(groups["background"], 2.5)
    files.write(proc / "stat", stat(user=9.0, softirq=1.0, iowait=4.0, steal=2.0).encode())
    watching.end()
    files.write(proc / "stat", stat(user=99.0).encode())
    watching.stop()
    assert watching.span is not None
    found = spent(*watching.span, {"measured"})
    assert (found.trial, found.beside, found.strata) == (3.0, 2.0, 0.0)
    assert found.others == pytest.approx(4.0)


def test_a_span_that_nobody_ended_ends_with_the_sampler(proc: Path) -> None:
    del proc
    watching = Sampler()
    watching.begin()
    assert watching.span is None
    watching.stop()
    assert watching.span is not None


def test_a_sampler_that_never_started_can_be_stopped() -> None:
    watching = Sampler()
    watching.stop()
    assert watching.span is None
    assert watching.rows({"m"}, 0.0, time.monotonic()) == []


def documented() -> set[str]:
    """The columns in docs/results.md."""
    page = (REPO / "docs/results.md").read_text()
    words = page.split("## usage.parquet")[1].split("\n## ")[0].split("`")[1::2]
    assert len(words) > 10
    return set(words)


def sampled(count: int, programs: dict[str, Callable[[], Counters]]) -> Sampler:
    """A stopped sampler that has at least so many rows."""
    watching = Sampler()
    for name, usage in programs.items():
        watching.watch(name, usage)
    while len(watching.rows(set(programs), 0.0, time.monotonic())) < count:
        time.sleep(0.005)
    watching.stop()
    return watching


def test_the_rows_have_the_documented_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "INTERVAL", 0.02)
    ticks = itertools.count(1)
    programs = {"m": lambda: Counters(cpu=float(next(ticks)), memory=7), "b": Counters}
    watching = sampled(3, programs)
    rows = watching.rows({"m"}, 0.0, time.monotonic())
    for row in rows:
        assert set(row) == documented() - {"host"}, "the host is added by the controller"
        assert row["workload_memory"] == 7
    assert (rows[-1]["beside_cpu"], rows[-1]["others_cpu"]) == (None, None), "one tells nothing"
    begun = [row["mono"] for row in rows]
    assert begun == sorted(begun)
    assert rows[1]["workload_cpu"] == pytest.approx(1 / (begun[1] - begun[0]))
    assert watching.rows({"m"}, begun[-1] + 60, begun[-1] + 61) == [], "of another time"
    assert len(watching.rows({"m"}, begun[0], begun[1])) == 1


def test_the_hosts_files_are_read_once_a_tick_however_many_programs_there_are(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "INTERVAL", 0.005)
    read = Path.read_text
    seen = Counter[str]()

    def noted(path: Path, *given: str, **more: str) -> str:
        seen[path.name] += path.is_relative_to(proc)
        return read(path, *given, **more)

    monkeypatch.setattr(Path, "read_text", noted)
    for number in (1, 6):
        seen.clear()
        programs = {f"m{n}": lambda: Counters(cpu=1.0, memory=5) for n in range(number)}
        watching = sampled(4, programs)
        rows = watching.rows(set(programs), 0.0, time.monotonic())
        assert rows[-1]["workload_memory"] == 5 * number
        # And one to begin with, which is no row.
        assert {seen[name] for name in ("stat", "diskstats", "vmstat")} == {len(rows) + 1}
        assert seen["meminfo"] == len(rows)


class Pauses:
    """Stands in for the event that ends the thread: notes what it waited, and ends it."""

    def __init__(self, count: int) -> None:
        self.given: list[float] = []
        self._count = count

    def wait(self, seconds: float) -> bool:
        self.given.append(seconds)
        return len(self.given) == self._count

    def set(self) -> None:
        """It has ended by itself."""


@pytest.mark.parametrize(
    ("look_s", "pause_s"), [(0.0, sampler.INTERVAL), (0.004, sampler.INTERVAL), (0.06, 6.0)]
)
def test_a_host_on_which_a_look_takes_long_is_looked_at_less_often(
    monkeypatch: pytest.MonkeyPatch, look_s: float, pause_s: float
) -> None:
    clock = itertools.count()
    monkeypatch.setattr(sampler.time, "thread_time", lambda: next(clock) * look_s)
    watching, pauses = Sampler(), Pauses(3)
    monkeypatch.setattr(watching, "_stopped", pauses)
    watching.watch("m", Counters)
    watching.stop()
    assert pauses.given == [sampler.INTERVAL, *[pytest.approx(pause_s)] * 2]


def test_this_process_and_those_that_it_is_run_by_are_stratas() -> None:
    chain = processes.up_to(None)
    assert chain[0] == os.getpid()
    assert os.getppid() in chain or os.getppid() == 1
    assert 1 not in chain
    assert processes.up_to(os.getpid()) == [os.getpid()], "not the shell of ansible-playbook"


def test_what_our_children_use_is_not_our_own() -> None:
    burn = "sum(range(20_000_000))"
    before, own = processes.cpu_seconds([os.getpid()]), os.times()
    subprocess.run([sys.executable, "-c", burn], check=True)
    after, now = processes.cpu_seconds([os.getpid()]), os.times()
    children = now.children_user - own.children_user + now.children_system - own.children_system
    assert children > 0.1
    assert after - before < children
