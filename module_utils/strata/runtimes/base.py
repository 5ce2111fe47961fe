"""What every runtime is: the program that it is asked to start, and the interface."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from .. import storage
from ..cell import Resources
from ..host.counters import Counters
from ..members import Port

OPEN_FILES = 65536
SIGNAL_BASE, LAST_SIGNAL = 128, 64
# Where a program finds its scratch space. The image has no folder of that name: runtimes make it.
SCRATCH = "/run/scratch"

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


def open_files() -> int:
    """How many files a program may have open: as many everywhere as this host lets us."""
    return min(OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def shared_memory() -> int:
    """Bytes of /dev/shm, as the kernel gives it to a host: half of the memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


@dataclass(frozen=True)
class Spec:
    """A program to be started: what, from which image, with which resources.

    `name` is unique on the host; a trial may have several programs there.
    """

    name: str
    run: str
    workload: str
    spool: Path  # holds in/ (read-only to the program) and out/
    image: dict[str, str]  # family, kind, digest, rootfs
    account: int = field(kw_only=True)  # number of the user and of the group that it runs as
    data: Path | None = None  # mounted read-only at /data
    network: str = "host"
    peers_network: str = "host"  # the one under test: another, where this end is not on it
    service: str = ""  # the name of a service to stand before it, through which peers reach it
    resources: Resources = field(default_factory=Resources)
    ports: list[Port] = field(default_factory=list)  # listened on, for peers
    place: str = ""  # its address on the network, where a setting gives it one
    member_of: str = ""  # its trial
    # Addresses of the hosts on whose own network peers of it stand: who reaches it beside pods.
    from_hosts: list[str] = field(default_factory=list)
    trial: str = ""  # whose peers share a network of their own, where one is made for them
    scratch: bool = False  # the program may write to SCRATCH
    storage: str = storage.DISK  # where that is; on the host's disk it is spool's scratch/
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Inside:
    """Where the program finds its things, as it sees them."""

    python: str
    code: str  # PYTHONPATH
    given: str
    out: str
    data: str
    scratch: str


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
            f"{spec.spool}/scratch",
        )
    fixed = ("/usr/bin/python3", "/opt/strata/site:/opt/strata", "/in", "/out", "/data")
    return Inside(*fixed, SCRATCH)


def program(spec: Spec) -> list[str]:
    """The command line of the workload."""
    where = inside(spec)
    config = ["--config", f"{where.given}/config.json", "--out", where.out]
    return [where.python, "-m", "workloads", spec.workload, *config]


@dataclass(frozen=True)
class Ended:
    """How a program ended: `code` is its exit status, negative for a signal."""

    code: int
    memory: bool = False  # the kernel killed it for want of memory
    at: float = field(default_factory=time.monotonic, compare=False)  # when the end was seen


def exit_code(status: int) -> int:
    """Engines report death by a signal as 128 and its number; other numbers are the program's."""
    dead = SIGNAL_BASE < status <= SIGNAL_BASE + LAST_SIGNAL
    return SIGNAL_BASE - status if dead else status


class RuntimeLostError(Exception):
    """The runtime lost the program: a daemon stopped, say, or a cluster did not let it run.

    `cause` is that of the record.
    """

    def __init__(self, why: str, cause: str = "runtime_lost") -> None:
        super().__init__(why)
        self.cause = cause


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

    def phases(self) -> dict[str, float]:
        """Seconds of parts of its start, as the runtime itself saw them, by name."""

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


class Unavailable:
    """A runtime that this host lacks: every trial of it fails to start, and its record says why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def prepare(self) -> None:
        raise StartError(self._why)

    def launch(self) -> None:
        raise StartError(self._why)

    def wait(self, seconds: float) -> Ended | None:
        del seconds
        raise RuntimeLostError(self._why)

    def usage(self) -> Counters:
        return Counters()

    def phases(self) -> dict[str, float]:
        return {}

    def signal(self, number: int) -> None:
        """Nothing runs."""

    def logs(self) -> tuple[str, str]:
        return "", ""

    def remove(self) -> None:
        """Nothing was made."""


@contextlib.contextmanager
def watched(pid: int | None) -> Iterator[select.poll | None]:
    """A poll that returns as soon as the process ends; None where the kernel cannot tell.

    Waiting for a child with a time limit is a loop of sleeps in Python, up to 50 ms late. That
    would be a part of every native trial and of no other.
    """
    descriptor = -1
    if pid is not None:
        with contextlib.suppress(OSError):  # it has gone, or the kernel is older than 5.3
            descriptor = os.pidfd_open(pid)
    if descriptor < 0:
        yield None
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        yield poll
    finally:
        os.close(descriptor)
