"""Processes of a program that no control group holds: a session of its own, found in /proc."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from . import agent
from .counters import Counters
from .lease import start_time

TICK = os.sysconf("SC_CLK_TCK")
NAME = 15  # characters of a process's name that the kernel keeps
PATIENCE_S = 5.0
# In the spool of a trial: the leader of its session.
FILE = "process"


@dataclass(frozen=True)
class Stat:
    """What is needed of /proc/PID/stat."""

    name: str  # at most NAME characters of it
    state: str
    parent: int
    session: int
    own: float  # CPU seconds
    cpu: float  # the same, with those of ended children that were waited for


def parse(text: str) -> Stat:
    """The program's name, the second field, may hold spaces and brackets."""
    start, _, rest = text.rpartition(")")
    name, fields = start.partition("(")[2], rest.split()
    own, children = (sum(map(int, fields[a : a + 2])) / TICK for a in (11, 13))
    return Stat(name, fields[0], int(fields[1]), int(fields[3]), own, own + children)


def sizes(text: str) -> tuple[int | None, int | None]:
    """Resident bytes of /proc/PID/status, now and at most; None for a process that has ended."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    now, peak = (
        int(lines[name].split()[0]) * 1024 if name in lines else None for name in ("VmRSS", "VmHWM")
    )
    return now, peak


def session(leader: int) -> dict[int, Stat]:
    """The processes of a session, ended ones that nobody has waited for among them."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = parse((path / "stat").read_text())
            if stat.session == leader:
                found[int(path.name)] = stat
    return found


def used(leader: int, before: Counters) -> Counters:
    """What the session has used so far; never less than `before`, for processes come and go."""
    stats = session(leader)
    if not stats:
        return before
    now, peak = 0, 0
    for pid in stats:
        with contextlib.suppress(OSError):
            resident, most = sizes(Path(f"/proc/{pid}/status").read_text())
            now, peak = now + (resident or 0), peak + (most or 0)
    return Counters(
        max(sum(stat.cpu for stat in stats.values()), before.cpu or 0.0),
        now,
        max(peak, before.memory_peak or 0) or None,
    )


def up_to(last: int | None) -> list[int]:
    """This process and those that it is run by, up to `last`, or else to all below the first.

    On a controller `last` is ansible-playbook: the shell that it was typed into does other things.
    """
    chain = [os.getpid()]
    while chain[-1] != last and (parent := _parent(chain[-1])) > 1:
        chain.append(parent)
    return chain


def _parent(pid: int) -> int:
    """Of a process; 0 of one that has ended."""
    try:
        return parse(Path(f"/proc/{pid}/stat").read_text()).parent
    except OSError:
        return 0


def cpu_seconds(pids: list[int]) -> float:
    """What these processes have used, without their children."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += parse(Path(f"/proc/{pid}/stat").read_text()).own
    return total


class Daemons:
    """What the processes of some names have used, those that have ended since among them.

    Without their children: a container is a child of its shim, which waits for it.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(name[:NAME] for name in names)
        self._used: dict[int, float] = {}

    def look(self) -> None:
        """Find those that have been started since."""
        for path in Path("/proc").glob("[0-9]*") if self._names else ():
            self._read(int(path.name))

    def cpu(self) -> float | None:
        """CPU seconds of all that were found so far; None where a host's processes are not seen."""
        if not agent.sees_processes():
            return None
        for pid in list(self._used):
            self._read(pid)
        return sum(list(self._used.values()))  # another thread may be looking

    def _read(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            stat = parse(Path(f"/proc/{pid}/stat").read_text())
            if stat.name in self._names:
                self._used[pid] = max(stat.own, self._used.get(pid, 0.0))


def largest_child() -> int:
    """Bytes of the largest ended child: the peak of a program too short to be looked at."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def memory_kills() -> int:
    """How many processes the kernel of this machine has killed for want of memory so far."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def out_of_memory(code: int, kills: int | None, before: int) -> bool:
    """Whether the kernel killed a program, or a part of it, for want of memory.

    The counter of its control group decides: `kills`. Where that could not be read in time, a
    death by SIGKILL is taken for one if the machine's count has risen since it was `before`.
    """
    if kills is not None:
        return kills > 0
    return code == -signal.SIGKILL and memory_kills() > before


def end_session(leader: int) -> None:
    """Kill until nothing of the session runs."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        running = [pid for pid, stat in session(leader).items() if stat.state not in {"Z", "X"}]
        if not running:
            return
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def note(leader: int, at: Path) -> None:
    """Write down which process leads, so that it is found when the one that watches is killed."""
    at.write_text(f"{leader} {start_time(leader)}")


def end_noted(at: Path) -> bool:
    """End the session whose leader was noted, if that very process still runs; whether it did."""
    try:
        leader, start = at.read_text().split()
    except (OSError, ValueError):
        return False
    if str(start_time(int(leader))) != start:
        return False
    end_session(int(leader))
    return True


def has_open(path: Path) -> bool:
    """Whether a process has the file open, as far as this account may see."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if descriptor.samefile(path):
                return True
    return False


OWNED = re.compile(r"making\.(\d+)\.(\d+)")


def own_name() -> str:
    """A name for what this process makes by a runtime, and ends itself."""
    return f"making.{os.getpid()}.{start_time(os.getpid())}"


def owner_lives(name: str) -> bool:
    """Whether `name` is an own name of a process that has not ended. No trial has such a name."""
    match = OWNED.fullmatch(name)
    return match is not None and start_time(int(match[1])) == int(match[2])
