"""Sums by MPI, as MPICH has it, over TCP: the option `transport: mpi`.

Elsewhere `mpiexec` starts all processes and tells each where the others are. Here each is started
in a place of its own, and has met its peers already. So every member is its own process manager:
a thread answers what MPICH asks one (PMI-1, over a socket pair), from the plan, and where MPICH
waits for all, the members meet.

MPICH listens at the port at which they have met, which is free again by then, and at no other; it
asks nobody for a key. That a peer is gone it does not notice, and waits for ever: the members'
links tell, and then the process ends.
"""

import ctypes
import fcntl
import os
import re
import secrets
import select
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from workloads._options import BadInputError
from workloads._output import FailureError
from workloads._place import Member, Place
from workloads._wire import Links, PeerError

if TYPE_CHECKING:
    from workloads._servers import Vector

LIBRARY = "libmpi.so.12"
LOOPBACK = "127.0.0.1"
SEGMENT = "/dev/shm/mpich_shm_"  # noqa: S108  as MPICH names them
# The key under which MPICH puts where a rank listens, and asks for others'.
ADDRESS = re.compile(r"-allgather-\d+-(?P<rank>\d+)")
SIOCGIFADDR = 0x8915
GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class Team(Protocol):
    """What is asked of the members that have met: `_cluster.Team`."""

    name: str
    place: Place
    links: Links
    index: int
    workers: int
    over: bool

    def meet(self, name: str) -> Any:
        """Waits until all are here."""

    def first_cause(self, error: BaseException) -> BaseException:
        """What failed first."""

    def abort(self, error: BaseException) -> None:
        """Tells all why this process ends."""


class World:
    """All workers of a ring, as one communicator."""

    def __init__(self, team: Team) -> None:
        """Starts MPI, and the thread that notices lost peers. FailureError, BadInputError."""
        self._mpi = _start(team)
        self._all = self._mpi.COMM_WORLD
        self._all.Set_errhandler(self._mpi.ERRORS_RETURN)
        threading.Thread(target=_watch, args=(team,), daemon=True).start()

    def reduce(self, vector: "Vector", scale: float = 1.0) -> None:
        """In place, the sum over all workers times `scale`, by whichever algorithm MPICH takes."""
        try:
            self._all.Allreduce(self._mpi.IN_PLACE, vector)
        except self._mpi.Exception as error:
            raise PeerError(f"MPI: {error}") from error
        if scale != 1.0:
            np.multiply(vector, np.float32(scale), out=vector)

    def about(self) -> str:
        """Which MPI it is, for the record."""
        return " ".join(str(self._mpi.Get_library_version()).splitlines()[0].split())


def _start(team: Team) -> Any:
    library, (ours, theirs) = _library(), socket.socketpair()
    links = team.links.all()
    os.environ |= {
        "MPI4PY_LIBMPI": str(library),
        "PMI_FD": str(theirs.detach()),  # MPICH's from here on
        "PMI_RANK": str(team.index),
        "PMI_SIZE": str(team.workers),
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": _interface(links[0].socket.getsockname()[0] if links else LOOPBACK),
        "FI_TCP_PORT_LOW_RANGE": str(team.place.listen),
        "FI_TCP_PORT_HIGH_RANGE": str(team.place.listen),
    }
    import mpi4py  # noqa: PLC0415  only in an image that has it

    mpi4py.rc(initialize=False, finalize=False)
    from mpi4py import MPI  # noqa: PLC0415

    threading.Thread(target=_manage, args=(team, ours), daemon=True).start()
    # Not mpi4py's: while that waits for its manager, no thread of Python runs.
    failed = ctypes.CDLL(str(library)).MPI_Init_thread(
        None, None, MPI.THREAD_FUNNELED, ctypes.byref(ctypes.c_int())
    )
    if failed:
        raise FailureError(f"MPI: {MPI.Get_error_string(failed)}")
    _unlink_shared_memory()
    return MPI


def _unlink_shared_memory() -> None:
    """Takes the names of MPICH's segments, which no other process uses: none outlives this one."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if (path := line.split()[-1]).startswith(SEGMENT):
            Path(path).unlink(missing_ok=True)


def _library() -> Path:
    """MPICH, where pip has put it: beside the packages of an image, or in the environment."""
    try:
        import mpi4py  # noqa: PLC0415
    except ImportError as error:
        raise BadInputError(
            "transport: mpi needs mpi4py and MPICH in the workload image (example: transport: "
            f"strata); given: an image without: {error}"
        ) from error
    places = Path(mpi4py.__file__).parents[1] / "lib", Path(sys.prefix) / "lib"
    for path in (place / LIBRARY for place in places):
        if path.exists():
            return path
    raise BadInputError(
        f"transport: mpi needs MPICH's {LIBRARY} (example: transport: strata); given: none in "
        f"{places[0]} or {places[1]}"
    )


def _interface(address: str) -> str:
    """The network interface that has this address; it is the one on which peers come."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                told = fcntl.ioctl(asking, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has none
                continue
            if socket.inet_ntoa(told[20:24]) == address:
                return name
    raise FailureError(f"MPI: no network interface has the address {address}")


def _manage(team: Team, connection: socket.socket) -> None:
    """What MPICH takes for its process manager, until this process ends."""
    # Its shared memory is named by it: that of no other trial on the host.
    name = f"strata-{secrets.token_hex(8)}"
    try:
        with connection.makefile("r", encoding="ascii") as lines:
            for line in lines:
                asked = dict(word.partition("=")[::2] for word in line.split())
                if asked["cmd"] == "barrier_in":
                    team.meet("MPI")
                connection.sendall(f"{_answer(asked, team.place.workers, name)}\n".encode("ascii"))
    except Exception as error:
        _end(team, error)


def _answer(asked: Mapping[str, str], workers: Sequence[Member], name: str) -> str:
    """To one line of PMI-1. KeyError for what MPICH 5 does not ask."""
    if asked["cmd"] == "get":
        value = _value(asked["key"], workers)
        if value is None:
            return "cmd=get_result rc=-1 msg=unknown value=unknown"
        return f"cmd=get_result rc=0 msg=success value={value}"
    return {
        "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
        "get_appnum": "cmd=appnum appnum=0",
        "get_my_kvsname": f"cmd=my_kvsname kvsname={name}",
        "get_universe_size": f"cmd=universe_size size={len(workers)}",
        "put": "cmd=put_result rc=0 msg=success",
        "barrier_in": "cmd=barrier_out",
        "finalize": "cmd=finalize_ack",
    }[asked["cmd"]]


def _value(key: str, workers: Sequence[Member]) -> str | None:
    if key == "PMI_process_mapping":  # each on a node of its own: none share memory
        return f"(vector,(0,{len(workers)},1))"
    match = ADDRESS.fullmatch(key)
    return card(*workers[int(match["rank"])].target) if match else None


def card(host: str, port: int) -> str:
    """Where a peer listens, as MPICH writes it: the struct sockaddr_in, in hexadecimal.

    It is of the plan and not what the peer put: that may be an address which only its own
    container knows.
    """
    address = socket.inet_aton(socket.gethostbyname(host))
    packed = struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + address + bytes(8)
    return packed.hex().upper()


def _watch(team: Team) -> None:
    """Waits for a link to end. Before all are done, that is the end of the trial."""
    poll = select.poll()
    links = {link.fd: link for link in team.links.all()}
    for fd in links:
        poll.register(fd, GONE)
    fd = poll.poll()[0][0]
    if not team.over:
        _end(team, links[fd].lost())


def _end(team: Team, error: Exception) -> None:
    """Ends this process, whose main thread is in MPI and cannot be woken."""
    cause = team.first_cause(error)
    team.abort(cause)
    print(f"{team.name}: {cause}", file=sys.stderr, flush=True)
    os._exit(getattr(cause, "status", 1))
