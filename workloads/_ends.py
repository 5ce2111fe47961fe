"""The two ends of a test between a client and a server, which are the members of one trial.

They meet over a TCP connection of their own, with the trial's key, before anything is measured: so
no stray connection is taken for the test's, and each end hears at once when the other has failed.

    with meeting(options, context) as link:
        link.tell({...}); link.hear()

Where the ends stand, and by which way the client reaches the server, are options of these
workloads, which the hosts act on (`strata.ends`). That a service is gone through is seen here: the
address that the client connected to is not the server's.

What the test costs an end is read there: what the member's processes used, and what the whole host
used meanwhile. A trial's control group does not hold what the kernel does for its packets.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from workloads import _options, _route
from workloads._declare import Metric, Port
from workloads._output import Context, FailureError
from workloads._peers import Peer, Peers
from workloads._wire import (
    CONNECT_S,
    HANDSHAKE_S,
    RETRY_S,
    AbortedError,
    HandshakeError,
    Link,
    PeerError,
    introduce,
    welcome,
)

CONTROL = Port("control", "tcp", ("server",))
PINGS = 20
STAT = Path("/proc/stat")
TICK = os.sysconf("SC_CLK_TCK")
# What /proc/stat says of all CPUs together, in ticks. Time of guests is within the first two.
CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
NOT_BUSY = ("idle", "iowait", "steal")


@dataclass(frozen=True)
class Options(_options.Options):
    """Those of every such workload."""

    ends: Literal["both", "client_only", "server_only"] = field(
        default="both",
        metadata={
            "help": "which ends are on the network; the other is on its host's own",
            "unit": "",
        },
    )
    through: Literal["address", "service"] = field(
        default="address",
        metadata={
            "help": "what the client connects to: the server's own address, or a service's before "
            "it",
            "unit": "",
        },
    )


@contextlib.contextmanager
def meeting(options: Options, context: Context) -> Iterator[Link]:
    """The link to the other end, for as long as the test takes.

    Notes in the result how packets reach the other end, and the clock's offset to the chief's,
    the client's. Raises PeerError where the other end is not found in time, and FailureError where
    it is not reached through what was asked for. A failure is told to the other end.
    """
    peers = context.peers
    assert peers is not None  # noqa: S101 - of a topology with several members
    serves = peers.me.role == "server"
    (other,) = peers.of("client" if serves else "server")
    connection = _awaited(peers, other) if serves else _opened(peers, other)
    context.environment["route"] = _route.of(connection)
    link = Link(connection, other, peers.silent_s)
    try:
        if serves:
            context.cluster = _clock(link)
        else:
            _answer(link)
        _reached(options, link, context.environment["route"], serves=serves)
        yield link
    except PeerError:
        raise
    except FailureError as error:
        with contextlib.suppress(PeerError):
            link.tell({"abort": f"{peers.me}: {error}"})
        raise
    finally:
        link.close()


def _awaited(peers: Peers, client: Peer) -> socket.socket:
    """The connection that holds the trial's key; nothing listens there afterwards."""
    deadline = time.monotonic() + peers.find_s
    with socket.create_server(("0.0.0.0", peers.me.ports[CONTROL.name])) as listener:  # noqa: S104
        while (left := deadline - time.monotonic()) > 0:
            listener.settimeout(left)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                break
            try:
                welcome(connection, peers, [(CONTROL.name, client)])
            except (OSError, HandshakeError):
                connection.close()  # whoever it was: no peer of this trial
            else:
                return connection
    raise _not_found(peers, client, "it did not connect to this process")


def _opened(peers: Peers, server: Peer) -> socket.socket:
    deadline, why = time.monotonic() + peers.find_s, ""
    while time.monotonic() < deadline:
        connection: socket.socket | None = None
        try:
            connection = socket.create_connection(server.address(CONTROL.name), CONNECT_S)
            connection.settimeout(HANDSHAKE_S)
            introduce(connection, peers, CONTROL.name, server)
        except (OSError, HandshakeError) as error:
            why = str(error)
            if connection is not None:
                connection.close()
            time.sleep(RETRY_S)
        else:
            return connection
    raise _not_found(peers, server, why)


def _not_found(peers: Peers, other: Peer, why: str) -> PeerError:
    return PeerError(f"peers not found within {peers.find_s:g} s: {other} ({why})")


def _clock(link: Link) -> dict[str, float]:
    """The offset of the other end's clock to this one (s), by the quickest of several answers."""
    answers = []
    for _ in range(PINGS):
        asked = time.monotonic()
        link.tell({"ping": True})
        theirs, now = float(link.hear()["mono"]), time.monotonic()
        answers.append(((now - asked) / 2, theirs - (asked + now) / 2))
    error, offset = min(answers)
    return {"clock_offset_s": offset, "clock_error_s": error}


def _answer(link: Link) -> None:
    for _ in range(PINGS):
        link.hear()
        link.tell({"mono": time.monotonic()})


def _reached(options: Options, link: Link, route: dict[str, Any], *, serves: bool) -> None:
    """Raises FailureError where a service was asked for, and the server's own address was met.

    Behind an address that is translated on the way, as a service's is, the server has another one.
    """
    if serves:
        link.tell({"own": route["own"]})
    elif (own := link.hear()["own"]) == route["peer"] and options.through == "service":
        raise FailureError(f"asked to go through a service; connected to the server itself, {own}")


@dataclass(frozen=True)
class Spent:
    """CPU seconds so far, or between two instants."""

    own: float  # of this process and of those that it started and that have ended
    host: float  # of the whole host: all processes, the kernel's threads, interrupts
    softirq: float  # of that, in soft interrupts, which is where most packets are handled

    @classmethod
    def now(cls) -> Self:
        """So far. The host's are counted in ticks of the kernel's, of all its CPUs."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(each.ru_utime + each.ru_stime for each in used)
        return cls(own, *host_cpu(STAT.read_text()))

    def since(self, before: Self) -> Self:
        """What was spent since then."""
        return type(self)(
            self.own - before.own, self.host - before.host, self.softirq - before.softirq
        )


def host_cpu(text: str) -> tuple[float, float]:
    """CPU seconds of the host and, of these, in soft interrupts, from the text of /proc/stat."""
    ticks = map(int, text.splitlines()[0].split()[1:])
    spent = {name: value / TICK for name, value in zip(CPU_FIELDS, ticks, strict=False)}
    return sum(s for name, s in spent.items() if name not in NOT_BUSY), spent["softirq"]


def costs(unit: str) -> tuple[Metric, ...]:
    """The metrics of what a test costs each end, in CPU time for each unit of what it did."""
    kinds = (
        ("cpu", "CPU time"),
        ("host_cpu", "CPU time of the host"),
        ("softirq", "Softirq time of the host"),
    )
    return tuple(
        Metric(f"{name}_{role}", f"{label}, {role}", unit, "lower", role=role)
        for role in ("client", "server")
        for name, label in kinds
    )


def tell_costs(context: Context, spent: Spent, done: float) -> None:
    """Write those of this end; `done` is how many of the units were done meanwhile."""
    assert context.peers is not None  # noqa: S101 - of a topology with several members
    role = context.peers.me.role
    for name, seconds in (("cpu", spent.own), ("host_cpu", spent.host), ("softirq", spent.softirq)):
        context.scalar(f"{name}_{role}", seconds / done)


__all__ = [
    "CONTROL",
    "AbortedError",
    "Link",
    "Options",
    "PeerError",
    "Spent",
    "costs",
    "meeting",
    "tell_costs",
]
