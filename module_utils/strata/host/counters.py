"""Counters and gauges of the host, from the kernel's files.

Parsers are functions over the text of a file. A file that a host does not have gives null.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from . import agent, gpu
from .facts import read_text as host_text

SECTOR = 512  # bytes, the unit of /proc/diskstats whatever the device
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
MEGABIT = 1e6 / 8  # bytes/s, the unit of a card's speed
# The `cpu` line of /proc/stat, in ticks. Guests, which follow, are within user and nice already.
CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

RATES = (
    *("cpu_busy", "interrupts", "iowait", "steal"),
    *("disk_read", "disk_written", "net_received", "net_sent", "swap"),
)
PROC = Path("/proc")
CPUS = Path("/sys/devices/system/cpu")
BLOCK = Path("/sys/block")
CARDS = Path("/sys/class/net")


@dataclass(frozen=True)
class Counters:
    """What a workload has used so far; None where the host cannot say."""

    cpu: float | None = None  # seconds
    memory: int | None = None  # bytes, now
    memory_peak: int | None = None  # bytes
    throttled: int | None = None  # periods in which a CPU limit held it back


class CpuTime(NamedTuple):
    """CPU seconds of all CPUs since the host started."""

    busy: float  # by processes and interrupts of this host
    interrupts: float  # of that, by interrupts
    iowait: float  # idle, while some task waited for a disk
    steal: float  # wanted, and given to other guests by the hypervisor


@dataclass(frozen=True)
class Totals:
    """Counters of the host since it started: seconds as in `CpuTime`, bytes."""

    cpu_busy: float
    interrupts: float
    iowait: float
    steal: float
    disk_read: float
    disk_written: float
    net_received: float | None  # None where the host's cards cannot be seen
    net_sent: float | None
    swap: float
    throttled: int = 0  # times the CPU slowed itself for heat or power; no column of its own
    # Seconds in which some task waited; None where the kernel does not count them.
    waited_cpu: float | None = None
    waited_memory: float | None = None
    waited_io: float | None = None


def cpu(text: str) -> CpuTime:
    """What /proc/stat says of all CPUs together."""
    ticks = map(int, text.splitlines()[0].split()[1:])
    spent = {name: value / TICK for name, value in zip(CPU_FIELDS, ticks, strict=False)}
    interrupts = spent["irq"] + spent["softirq"]
    busy = spent["user"] + spent["nice"] + spent["system"] + interrupts
    return CpuTime(busy, interrupts, spent["iowait"], spent["steal"])


def disks(text: str, whole: Collection[str]) -> tuple[float, float]:
    """Bytes read and written in /proc/diskstats, of whole disks: partitions would count twice."""
    rows = [line.split() for line in text.splitlines()]
    chosen = [row for row in rows if row[2] in whole]
    return (
        float(sum(int(row[5]) for row in chosen) * SECTOR),
        float(sum(int(row[9]) for row in chosen) * SECTOR),
    )


def network(text: str, cards: frozenset[str] = frozenset()) -> tuple[float, float]:
    """Bytes received and sent in /proc/net/dev by the given cards.

    A packet of a container passes its own interface, a bridge and the card; it counts once.
    Where no card is known (the host is a container itself) all but loopback count.
    """
    rows = [line.replace(":", " ").split() for line in text.splitlines()[2:]]
    chosen = [row for row in rows if (row[0] in cards if cards else row[0] != "lo")]
    return float(sum(int(row[1]) for row in chosen)), float(sum(int(row[9]) for row in chosen))


def swapped(text: str) -> float:
    """Bytes swapped in and out in /proc/vmstat."""
    values = dict(line.split(maxsplit=1) for line in text.splitlines())
    return float((int(values.get("pswpin", 0)) + int(values.get("pswpout", 0))) * PAGE)


def memory_used(text: str) -> int:
    """Bytes that are not available in /proc/meminfo."""
    values = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()}
    return (values["MemTotal"] - values["MemAvailable"]) * 1024


def pressure(text: str) -> float:
    """Share of the last ten seconds (0..1) in which some task waited, of a /proc/pressure file."""
    return float(_some(text)["avg10"]) / 100


def waited(text: str) -> float:
    """Seconds since the boot in which some task waited, of a /proc/pressure file."""
    return int(_some(text)["total"]) / 1e6


def _some(text: str) -> dict[str, str]:
    some = next(line for line in text.splitlines() if line.startswith("some"))
    return dict(part.split("=") for part in some.split()[1:])


def frequency(texts: list[str]) -> float | None:
    """Mean frequency in Hz of the scaling_cur_freq files (kHz)."""
    values = [int(text) * 1000 for text in texts]
    return sum(values) / len(values) if values else None


def throttled(texts: list[str]) -> int:
    """Sum of the CPUs' counts of how often they slowed themselves down."""
    return sum(int(text) for text in texts)


def totals() -> Totals:
    """All counters now; zero for what this host does not count."""
    cpus = cpu((PROC / "stat").read_text())
    read, written = disks(host_text(PROC / "diskstats"), with_device(BLOCK))
    received, sent = carried()
    swap = swapped(host_text(PROC / "vmstat"))
    slowed = throttled(_texts(CPUS, "cpu*/thermal_throttle/*_throttle_count"))
    waits = (_of_pressure(name, waited) for name in ("cpu", "memory", "io"))
    return Totals(*cpus, read, written, received, sent, swap, slowed, *waits)


def carried() -> tuple[float, float] | tuple[None, None]:
    """Bytes received and sent by this host's cards; None where only a pod's own can be seen."""
    if not agent.sees_processes():
        return None, None
    return network(host_text(PROC / "net/dev"), with_device(CARDS))


def link_speed() -> float | None:
    """Bytes/s that all cards of this host can send; None where one of them does not say."""
    cards = [_number(CARDS / card / "speed") for card in with_device(CARDS)]
    if not cards or min(cards) <= 0:
        return None
    return sum(cards) * MEGABIT


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


@cache
def with_device(folder: Path) -> frozenset[str]:
    """Those with a device of their own behind them: no partitions, loops, bridges.

    Looked up once: devices do not come and go during a slot.
    """
    if not folder.is_dir():
        return frozenset()
    return frozenset(path.name for path in folder.iterdir() if (path / "device").exists())


def rates(before: Totals, now: Totals, seconds: float) -> dict[str, float | None]:
    """What was used of each in a second, on average; None of what cannot be seen."""
    pairs = {name: (getattr(before, name), getattr(now, name)) for name in RATES}
    return {
        name: None if None in (then, after) else max(0.0, after - then) / seconds
        for name, (then, after) in pairs.items()
    }


def gauges() -> tuple[dict[str, float | None], float]:
    """What is so at this moment, None for what this host does not tell.

    With it the CPU seconds of the program that had to be asked.
    """
    gpus, spent = gpu.sample()
    found = {
        "memory_used": memory_used((PROC / "meminfo").read_text()),
        "frequency": frequency(_texts(CPUS, "cpu*/cpufreq/scaling_cur_freq")),
        **{f"pressure_{name}": _of_pressure(name, pressure) for name in ("cpu", "memory", "io")},
        **_together(gpus),
    }
    return found, spent


def _texts(folder: Path, pattern: str) -> list[str]:
    found = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            found.append(path.read_text())
    return found


def _of_pressure(name: str, read: Callable[[str], float]) -> float | None:
    try:
        return read((PROC / "pressure" / name).read_text())
    except (OSError, StopIteration):
        return None


def _together(gpus: list[dict[str, float]] | None) -> dict[str, float | None]:
    """Mean utilisation and summed memory of the host's GPUs."""
    if not gpus:
        return {"gpu_utilisation": None, "gpu_memory": None}
    return {
        "gpu_utilisation": sum(one["utilisation"] for one in gpus) / len(gpus),
        "gpu_memory": sum(one["memory"] for one in gpus),
    }
