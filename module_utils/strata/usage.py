"""What the host and the workload use while a trial runs, sampled on a thread.

Parsers are functions over the text of a file; the sampler reads files and takes differences.
A file that a host does not have gives null.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from . import gpu
from .runtimes import Counters

INTERVAL = 0.5
SECTOR = 512  # bytes, the unit of /proc/diskstats whatever the device
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
IDLE_FIELDS = (3, 4)  # idle and iowait in the `cpu` line
STEAL_FIELD = 7


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


def cpu(text: str) -> tuple[float, float]:
    """Busy and stolen CPU seconds of /proc/stat. Guests are within user time already."""
    ticks = [int(value) for value in text.splitlines()[0].split()[1:9]]
    idle = sum(ticks[index] for index in IDLE_FIELDS)
    return (sum(ticks) - idle) / TICK, ticks[STEAL_FIELD] / TICK


def disks(text: str, whole: set[str]) -> tuple[float, float]:
    """Bytes read and written in /proc/diskstats, of whole disks: partitions would count twice."""
    rows = [line.split() for line in text.splitlines()]
    chosen = [row for row in rows if row[2] in whole]
    return (
        float(sum(int(row[5]) for row in chosen) * SECTOR),
        float(sum(int(row[9]) for row in chosen) * SECTOR),
    )


def network(text: str) -> tuple[float, float]:
    """Bytes received and sent in /proc/net/dev, loopback apart."""
    rows = [line.replace(":", " ").split() for line in text.splitlines()[2:]]
    chosen = [row for row in rows if row[0] != "lo"]
    return float(sum(int(row[1]) for row in chosen)), float(sum(int(row[9]) for row in chosen))


def swapped(text: str) -> float:
    """Bytes swapped in and out in /proc/vmstat."""
    values = dict(line.split() for line in text.splitlines())
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


def totals() -> Totals:
    busy, steal = cpu(Path("/proc/stat").read_text())
    read, written = disks(Path("/proc/diskstats").read_text(), whole_disks())
    received, sent = network(Path("/proc/net/dev").read_text())
    swap = swapped(Path("/proc/vmstat").read_text())
    return Totals(busy, steal, read, written, received, sent, swap)


def whole_disks() -> set[str]:
    """Disks with a device of their own behind them: no partitions, loops or RAM disks."""
    block = Path("/sys/block")
    if not block.is_dir():
        return set()
    return {path.name for path in block.iterdir() if (path / "device").exists()}


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
        """Take the last totals and end; also when it never started."""
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
            field.name: max(0.0, getattr(now, field.name) - getattr(before, field.name)) / seconds
            for field in fields(Totals)
        }
        cores = None
        if using.cpu is not None and used.cpu is not None:
            cores = max(0.0, using.cpu - used.cpu) / seconds
        return {
            "mono": at,
            **rates,
            "memory_used": memory_used(Path("/proc/meminfo").read_text()),
            "frequency": frequency(
                _texts("/sys/devices/system/cpu", "cpu*/cpufreq/scaling_cur_freq")
            ),
            **{f"pressure_{name}": _pressure(name) for name in ("cpu", "memory", "io")},
            "workload_cpu": cores,
            "workload_memory": using.memory,
            **_gpus(),
        }


def _texts(folder: str, pattern: str) -> list[str]:
    found = []
    for path in Path(folder).glob(pattern):
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
