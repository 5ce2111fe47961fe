"""How a program is started on a host. Each runtime is a class in a file of its own.

The interface is six methods. Whatever happens, `remove` is called last and leaves nothing.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

# The networks each runtime can have; the first is what it has unless stated.
NETWORKS: dict[str, tuple[str, ...]] = {
    "native": ("host",),
    "docker": ("bridge", "host", "none"),
}

# The unprivileged account that a workload runs as, the same number everywhere.
UID = 65532 if os.geteuid() == 0 else os.geteuid()
GID = 65532 if os.geteuid() == 0 else os.getegid()


# What every program finds in its environment, and nothing else.
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": "/opt/strata/site:/opt/strata",
    "HOME": "/tmp",  # noqa: S108 - the only place it may write beside /out
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONHASHSEED": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


@dataclass(frozen=True)
class Spec:
    """A program to be started: what, from which image, with which resources."""

    trial: str
    run: str
    workload: str
    spool: Path  # holds in/ (read-only to the program) and out/
    image: dict[str, str]  # kind, digest, rootfs, docker
    data: Path | None = None  # mounted read-only at /data
    network: str = "host"
    cpus: str | None = None  # a CPU set, "0-3,8"
    memory: int | None = None  # bytes
    numa: int | None = None  # a node
    gpus: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Inside:
    """Where the program finds its things, as it sees them."""

    python: str
    code: str  # PYTHONPATH
    given: str
    out: str
    data: str


def inside(spec: Spec) -> Inside:
    """In the image's root filesystem at fixed places; in a virtual environment where they are."""
    if spec.image["kind"] == "venv":
        root = spec.image["rootfs"]
        return Inside(
            f"{root}/bin/python",
            f"{root}/strata",
            f"{spec.spool}/in",
            f"{spec.spool}/out",
            str(spec.data),
        )
    return Inside("/usr/bin/python3", "/opt/strata/site:/opt/strata", "/in", "/out", "/data")


def program(spec: Spec) -> list[str]:
    """The command line of the workload."""
    where = inside(spec)
    config = ["--config", f"{where.given}/config.json", "--out", where.out]
    return [where.python, "-m", "workloads", spec.workload, *config]


@dataclass(frozen=True)
class Ended:
    """How a program ended: `code` is its exit status, negative for a signal."""

    code: int
    memory: bool = False  # the memory limit ended it


@dataclass(frozen=True)
class Counters:
    """What a workload has used so far; None where the host cannot say."""

    cpu: float | None = None  # seconds
    memory: int | None = None  # bytes, now
    memory_peak: int | None = None  # bytes
    throttled: int | None = None  # periods in which a CPU limit held it back


class RuntimeLostError(Exception):
    """The runtime itself went away while the program ran: a daemon stopped, say."""


class StartError(Exception):
    """The program could not be started."""


class Runtime(Protocol):
    """What the trial needs of a runtime, in the order in which it is called."""

    def prepare(self) -> None:
        """Make all that need not be in the measured time. Raises StartError."""

    def launch(self) -> None:
        """Start the program. Raises StartError."""

    def wait(self, seconds: float) -> Ended | None:
        """The end, as soon as it is there; None after `seconds`. Raises RuntimeLostError."""

    def usage(self) -> Counters:
        """What was used so far. Never raises: a program may end at any time."""

    def signal(self, number: int) -> None:
        """Send a signal to every process of the program, if it still runs."""

    def logs(self) -> tuple[str, str]:
        """Standard output and standard error so far, the last 64 KiB of each."""

    def remove(self) -> None:
        """End whatever is left, and remove all that prepare and launch made."""


LOG_BYTES = 64 * 1024


def tail(data: bytes) -> str:
    """The end of a log as valid text."""
    return data[-LOG_BYTES:].decode("utf-8", "replace")


def make(name: str, spec: Spec) -> Runtime:
    """The runtime called `name` for one program."""
    if name == "native":
        from .native import Native  # noqa: PLC0415 - a host needs only what it runs

        return Native(spec)
    from .docker import Docker  # noqa: PLC0415

    return Docker(spec)


def leftovers() -> list[str]:
    """Remove what a killed trial left behind, and name it. Only under the host's lease."""
    from . import native  # noqa: PLC0415 - see above

    found = native.leftovers()
    if importlib.util.find_spec("docker"):
        from . import docker  # noqa: PLC0415

        found += docker.leftovers()
    return found
