"""Where a workload's files are: the path to the disk is what a comparison of runtimes is about.

    disk     a folder of the host; in a container, a bind mount of it
    volume   a volume of the engine's
    layer    the container's own layer, on top of the image
    tmpfs    the host's memory

`strata.storage` says which runtimes have which. A workload has the option `storage`, and asks for
its folder here; what file system that really is on stands in its result.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Literal

from workloads._declare import Metric
from workloads._output import Context, FailureError

Storage = Literal["disk", "volume", "layer", "tmpfs"]
# Of the option.
ABOUT = {"help": "where its files are; which of these there are, the runtime says", "unit": ""}
MOUNTS = Path("/proc/self/mountinfo")
DISKSTATS = Path("/proc/diskstats")
BUSY_MS = 12  # the column with the milliseconds in which a device has had requests
BUSY = Metric("device_busy", "Share of the time in which the device had requests", "1")


def folder(context: Context, asked: Storage) -> Path:
    """The folder of the trial there; notes its file system.

    FailureError where there is none, or it is not where it was asked for.
    """
    if context.scratch is None:
        raise FailureError("no scratch space was given: `scratch` of config.json names none")
    kind = file_system(context.scratch.resolve(), MOUNTS.read_text())
    context.environment["file_system"] = kind
    if (asked == "tmpfs") != (kind == "tmpfs"):
        raise FailureError(f"storage: {asked} was asked for; its files would be on {kind}")
    return context.scratch


def file_system(path: Path, mountinfo: str) -> str:
    """The kind of the file system that a path is on, by the text of /proc/self/mountinfo."""
    found = (Path("/"), "unknown")
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        # Blanks in a path are written as \040.
        at = Path(fields.split()[4].replace("\\040", " "))
        if path.is_relative_to(at) and len(at.parts) >= len(found[0].parts):
            found = (at, rest.split()[0])  # of two on one place, the later one lies on top
    return found[1]


class Device:
    """The block device below a folder; what has none is memory, or a container's layer."""

    def __init__(self, where: Path) -> None:
        number = where.stat().st_dev
        self._number = [str(os.major(number)), str(os.minor(number))]

    def busy(self) -> float:
        """Seconds in which it has had requests, ever; not a number where nobody counts them."""
        for line in DISKSTATS.read_text().splitlines():
            fields = line.split()
            if fields[:2] == self._number:
                return int(fields[BUSY_MS]) / 1000
        return math.nan


def tell_busy(context: Context, busy: float, seconds: float) -> None:
    """The share of the measured time in which the device had requests, where that is known."""
    if math.isfinite(busy):
        context.scalar(BUSY.name, min(busy / seconds, 1.0))
