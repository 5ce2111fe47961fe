"""The CPUs of a host: what they can do, by the cores that they are of, and its two equal halves.

Two threads of one core take from each other what two cores do not, so no core is in both halves.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .. import units
from ..errors import Refused

TOPOLOGY = Path("/sys/devices/system/cpu")


def cpuinfo(text: str) -> dict[str, str]:
    """The first processor of /proc/cpuinfo."""
    first = text.split("\n\n", maxsplit=1)[0].splitlines()
    pairs = (line.split(":", 1) for line in first if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def flags(text: str) -> list[str]:
    """What the first processor of /proc/cpuinfo can do, sorted."""
    one = cpuinfo(text)
    return sorted(one.get("flags", one.get("Features", "")).split())


def cores(folder: Path = TOPOLOGY) -> list[list[int]]:
    """The CPUs that may be used, those of one core together; alone where the kernel tells none."""
    allowed = os.sched_getaffinity(0)
    found = {frozenset(_siblings(folder, cpu) & allowed) for cpu in allowed}
    return sorted(sorted(core) for core in found)


def _siblings(folder: Path, cpu: int) -> frozenset[int]:
    try:
        text = (folder / f"cpu{cpu}/topology/thread_siblings_list").read_text()
        return units.cpu_set(text.strip()) | {cpu}
    except (OSError, ValueError):
        return frozenset({cpu})


def halves(of: Sequence[Sequence[int]]) -> tuple[str, str]:
    """Two equal and disjoint CPU sets of whole cores. Raises Refused where there are none."""
    middle = len(of) // 2
    sides = [sorted(cpu for core in part for cpu in core) for part in (of[:middle], of[middle:])]
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        said = " ".join("+".join(map(str, core)) for core in of)
        raise Refused(
            "a duet needs two equal sets of CPUs that share no core",
            example="a host with 2, 4 or 8 cores, all of which have as many CPUs",
            given=f"its CPUs by core: {said}",
            then="measure the arms one after the other (design: pairs), or take another host",
        )
    first, second = (",".join(map(str, side)) for side in sides)
    return first, second
