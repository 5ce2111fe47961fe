"""A control group of one trial: limits, accounting, and the means to end it as a whole.

Version 1 (a tree for each controller) and version 2 (one tree) are used as the host has
them. Files, not a library: a handful of paths is all there is to it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

from .counters import Counters

ROOT = Path("/sys/fs/cgroup")
NAME = "strata"
V1_CONTROLLERS = ("memory", "cpu", "cpuacct", "cpuset")
QUOTA_PERIOD = 100_000  # microseconds, the kernel's default
NANOSECONDS = 1e9
MICROSECONDS = 1e6


def version() -> int:
    """2 where the unified tree has the controllers, or else 1."""
    controllers = ROOT / "cgroup.controllers"
    return 2 if controllers.exists() and "memory" in controllers.read_text() else 1


def above() -> dict[str, Path]:
    """The folder that holds ours, for each controller: where this host's first process is.

    A host that is a container may see the whole tree of the machine, and other hosts in it; what
    is beside its first process is its own.
    """
    found = of_process(1)
    if version() == 2:  # noqa: PLR2004
        # A group with processes of its own can have none below it in version 2.
        return dict.fromkeys(V1_CONTROLLERS, _without_scope(found["memory"]))
    return {name: _without_scope(found.get(name, ROOT / name)) for name in V1_CONTROLLERS}


def _without_scope(folder: Path) -> Path:
    """systemd puts itself one folder down."""
    return folder.parent if folder.name == "init.scope" else folder


@dataclass(frozen=True)
class Group:
    """The control group of the program `name`. Needs root."""

    name: str

    def paths(self) -> dict[str, Path]:
        """Its folder for each controller; one folder for all in version 2."""
        return {name: folder / NAME / self.name for name, folder in above().items()}

    def create(
        self, cpus: str | None, memory: int | None, numa: int | None, quota: float | None = None
    ) -> None:
        """Make it, with its limits. Raises OSError when the host refuses a limit."""
        for folder in set(self.paths().values()):
            folder.parent.mkdir(exist_ok=True)
            if version() == 2:  # noqa: PLR2004
                for upper in (folder.parent.parent, folder.parent):
                    _write(upper / "cgroup.subtree_control", "+memory +cpu +cpuset")
            folder.mkdir(exist_ok=True)
        self._limit_cpus(cpus, numa)
        if memory:
            self._limit_memory(memory)
        if quota:
            self._limit_share(round(quota * QUOTA_PERIOD))

    def _limit_share(self, microseconds: int) -> None:
        """CPU time in each period, however many CPUs it is spent on."""
        folder = self.paths()["cpu"]
        if version() == 2:  # noqa: PLR2004
            _write(folder / "cpu.max", f"{microseconds} {QUOTA_PERIOD}")
            return
        _write(folder / "cpu.cfs_period_us", str(QUOTA_PERIOD))
        _write(folder / "cpu.cfs_quota_us", str(microseconds))

    def _limit_cpus(self, cpus: str | None, numa: int | None) -> None:
        folder = self.paths()["cpuset"]
        if version() == 1:
            # In version 1 a new set is empty, and so is its parent's.
            for name in ("cpuset.cpus", "cpuset.mems"):
                whole = (folder.parent.parent / name).read_text()
                _write(folder.parent / name, whole)
                _write(folder / name, whole)
        if cpus:
            _write(folder / "cpuset.cpus", cpus)
        if numa is not None:
            _write(folder / "cpuset.mems", str(numa))

    def _limit_memory(self, memory: int) -> None:
        folder = self.paths()["memory"]
        if version() == 2:  # noqa: PLR2004
            _write(folder / "memory.max", str(memory))
            swap = folder / "memory.swap.max"
            if swap.exists():
                _write(swap, "0")
            return
        _write(folder / "memory.limit_in_bytes", str(memory))
        swap = folder / "memory.memsw.limit_in_bytes"
        if swap.exists():
            _write(swap, str(memory))

    def procs_files(self) -> list[str]:
        """Where a process writes its id to join."""
        return [str(folder / "cgroup.procs") for folder in sorted(set(self.paths().values()))]

    def processes(self) -> list[int]:
        found: set[int] = set()
        for folder in set(self.paths().values()):
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
        return sorted(found)

    def signal(self, number: int) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def remove(self) -> None:
        """Kill what is in it until it is empty, then remove it."""
        deadline = time.monotonic() + 10
        while self.processes() and time.monotonic() < deadline:
            self.signal(signal.SIGKILL)
            time.sleep(0.01)
        for folder in set(self.paths().values()):
            _rmdir(folder, deadline)


def existing() -> list[Group]:
    """Groups of trials that are there now."""
    top = Group("x").paths().values()
    return [
        Group(name)
        for name in sorted(
            {
                path.name
                for folder in top
                if folder.parent.is_dir()
                for path in folder.parent.iterdir()
                if path.is_dir()
            }
        )
    ]


def remove_all() -> None:
    """Remove every group of ours and the folder above them."""
    for group in existing():
        group.remove()
    for folder in {path.parent for path in Group("x").paths().values()}:
        if folder.is_dir():
            folder.rmdir()


# Where the counters of a group stand, in version 2 and in version 1: what Docker's containers have
# as well as ours.


def cpu_seconds(folders: dict[str, Path]) -> float | None:
    """CPU time in seconds."""
    v2 = _keyed(folders["cpuacct"] / "cpu.stat")
    if "usage_usec" in v2:
        return v2["usage_usec"] / MICROSECONDS
    v1 = _number(folders["cpuacct"] / "cpuacct.usage")
    return v1 / NANOSECONDS if v1 is not None else None


def memory_now(folders: dict[str, Path]) -> int | None:
    """Bytes, page cache included."""
    folder = folders["memory"]
    v2 = _number(folder / "memory.current")
    return v2 if v2 is not None else _number(folder / "memory.usage_in_bytes")


def memory_peak(folders: dict[str, Path]) -> int | None:
    folder = folders["memory"]
    v2 = _number(folder / "memory.peak")
    return v2 if v2 is not None else _number(folder / "memory.max_usage_in_bytes")


def memory_kills(folders: dict[str, Path]) -> int | None:
    """How many processes of the group the kernel has killed for want of memory.

    It counts before it kills, so that the number is right as soon as the process has ended. None
    where the group has gone, which it does some milliseconds after its last process.
    """
    folder = folders["memory"]
    v2 = _keyed(folder / "memory.events").get("oom_kill")
    return v2 if v2 is not None else _keyed(folder / "memory.oom_control").get("oom_kill")


def counters(folders: dict[str, Path]) -> Counters:
    """All that the group has used so far."""
    return Counters(
        cpu_seconds(folders), memory_now(folders), memory_peak(folders), throttled(folders)
    )


def throttled(folders: dict[str, Path]) -> int | None:
    """Periods in which a CPU quota held the group back."""
    return _held_back(folders["cpu"])


def _held_back(folder: Path) -> int | None:
    return _keyed(folder / "cpu.stat").get("nr_throttled")


class Meter:
    """Reads what a group has used, and how often a CPU quota held it back: its own, or since the
    meter was made one of a group above it, which counts there alone."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders
        self._above = [each for each in folders["cpu"].parents if each.is_relative_to(ROOT)]
        self._before = self._held_above()

    def read(self) -> Counters:
        """So far; what the host cannot say is None."""
        found = counters(self._folders)
        above = self._held_above() - self._before
        return replace(found, throttled=(found.throttled or 0) + above) if above else found

    def _held_above(self) -> int:
        return sum(_held_back(each) or 0 for each in self._above)


def of_process(pid: int) -> dict[str, Path]:
    """The folders of the group that a process is in, for each controller."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    found = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if version() == 2 and not controllers:  # noqa: PLR2004
            return dict.fromkeys(V1_CONTROLLERS, ROOT / path.lstrip("/"))
        for name in controllers.split(","):
            if name in V1_CONTROLLERS:
                found[name] = ROOT / name / path.lstrip("/")
    return found


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _keyed(path: Path) -> dict[str, int]:
    """A file of `name number` lines; empty when it cannot be read."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}  # noqa: PLR2004


def _rmdir(folder: Path, deadline: float) -> None:
    """A group can be busy for a moment after its last process has gone."""
    while folder.is_dir():
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
