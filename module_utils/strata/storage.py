"""Where the files of a workload can be: the paths to a disk that the runtimes have.

A workload that writes has them as levels of its option `storage` (`workloads/_storage.py` says what
each is). `disk` is a folder of the host, and what every runtime has.
"""

from __future__ import annotations

OPTION, DISK = "storage", "disk"
OF_RUNTIMES = {
    "native": (DISK, "tmpfs"),
    "docker": (DISK, "volume", "layer", "tmpfs"),
    "apptainer": (DISK, "tmpfs"),
}


def of(runtime: str) -> tuple[str, ...]:
    """What a runtime has."""
    return OF_RUNTIMES.get(runtime, (DISK,))
