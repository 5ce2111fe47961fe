"""What the host and the workload use while a trial runs, sampled on a thread.

Parsers are functions over the text of a file; the sampler reads files and takes differences.
A file that a host does not have gives null.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import gpu
from .facts import read_text as host_text

INTERVAL = 0.5
SECTOR = 512  # bytes, the unit of /proc/diskstats whatever the device
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
IDLE_FIELDS = (3, 4)  # idle and iowait in the `cpu` line
STEAL_FIELD = 7


RATES = ("cpu_busy", "steal", "disk_read", "disk_written", "net_received", "net_sent", "swap")
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


@dataclass(frozen=True)
class Totals:
    """Counters of the host since it started: seconds of CPU, bytes."""

    cpu_busy: float
    steal: float
    disk_read: float
    disk_written: float
    net_received: float
    net_sent: float
    swap: float
    throttled: int = 0  # times the CPU slowed itself for heat or power; no column of its own


def cpu(text: str) -> tuple[float, float]:
    """Busy and stolen CPU seconds of /proc/stat. Guests are within user time already."""
    ticks = [int(value) for value in text.splitlines()[0].split()[1:9]]
    idle = sum(ticks[index] for index in IDLE_FIELDS)
    return (sum(ticks) - idle) / TICK, ticks[STEAL_FIELD] / TICK


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
    some = next(line for line in text.splitlines() if line.startswith("some"))
    values = dict(part.split("=") for part in some.split()[1:])
    return float(values["avg10"]) / 100


def frequency(texts: list[str]) -> float | None:
    """Mean frequency in Hz of the scaling_cur_freq files (kHz)."""
    values = [int(text) * 1000 for text in texts]
    return sum(values) / len(values) if values else None


def throttled(texts: list[str]) -> int:
    """Sum of the CPUs' counts of how often they slowed themselves down."""
    return sum(int(text) for text in texts)


def totals() -> Totals:
    """All counters now; zero for what this host does not count."""
    busy, steal = cpu(Path("/proc/stat").read_text())
    read, written = disks(host_text("/proc/diskstats"), with_device(BLOCK))
    received, sent = network(host_text("/proc/net/dev"), with_device(CARDS))
    swap = swapped(host_text("/proc/vmstat"))
    slowed = throttled(_texts(CPUS, "cpu*/thermal_throttle/*_throttle_count"))
    return Totals(busy, steal, read, written, received, sent, swap, slowed)


def with_device(folder: Path) -> frozenset[str]:
    """Those with a device of their own behind them: no partitions, loops, bridges."""
    if not folder.is_dir():
        return frozenset()
    return frozenset(path.name for path in folder.iterdir() if (path / "device").exists())


class Sampler:
    """Samples until stopped; `rows` then are the rows of usage.parquet."""

    def __init__(self, workload: Callable[[], Counters], interval: float = INTERVAL) -> None:
        self._workload, self._interval = workload, interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rows: list[dict[str, Any]] = []
        self.first = self.last = totals()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take a last look at the host and end. Also for a sampler that was never started."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.last = totals()

    def _run(self) -> None:
        before, then, used = self.first, time.monotonic(), Counters(cpu=0.0)
        while not self._stopped.wait(self._interval):
            now, at, using = totals(), time.monotonic(), self._workload()
            self.rows.append(self._row(before, now, used, using, at - then, at))
            before, then = now, at
            used = using if using.cpu is not None else used

    def _row(
        self,
        before: Totals,
        now: Totals,
        used: Counters,
        using: Counters,
        seconds: float,
        at: float,
    ) -> dict[str, Any]:
        rates = {
            name: max(0.0, getattr(now, name) - getattr(before, name)) / seconds for name in RATES
        }
        cores = None
        if using.cpu is not None and used.cpu is not None:
            cores = max(0.0, using.cpu - used.cpu) / seconds
        return {
            "mono": at,
            **rates,
            "memory_used": memory_used(Path("/proc/meminfo").read_text()),
            "frequency": frequency(_texts(CPUS, "cpu*/cpufreq/scaling_cur_freq")),
            **{f"pressure_{name}": _pressure(name) for name in ("cpu", "memory", "io")},
            "workload_cpu": cores,
            "workload_memory": using.memory,
            **_gpus(),
        }


def _texts(folder: Path, pattern: str) -> list[str]:
    found = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            found.append(path.read_text())
    return found


def _pressure(name: str) -> float | None:
    try:
        return pressure(Path(f"/proc/pressure/{name}").read_text())
    except (OSError, StopIteration):
        return None


def _gpus() -> dict[str, float | None]:
    """Mean utilisation and summed memory of the host's GPUs."""
    found = gpu.sample()
    if not found:
        return {"gpu_utilisation": None, "gpu_memory": None}
    return {
        "gpu_utilisation": sum(one["utilisation"] for one in found) / len(found),
        "gpu_memory": sum(one["memory"] for one in found),
    }
