"""Requests and their responses over TCP, one at a time: latency, and how many of them a second.

Strata's own program, in Python: of the packaged tools none gives percentiles for requests of one
byte as well as the rate of new connections. It adds its own time to each transaction, the same on
every network (docs/networks.md has the figure). What it does is what netperf calls TCP_RR and, with
`connection: new`, TCP_CRR.
"""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from workloads import _ends
from workloads._declare import CLIENT_AND_SERVER, Metric, Port
from workloads._ends import CONTROL, Spent, costs, meeting, tell_costs
from workloads._output import Context, FailureError
from workloads._peers import Peers
from workloads._wire import Link, PeerError, watch

COMMON = ("connection", "request_size", "response_size", "duration")
ITEMS = "transactions"
METRICS = (
    Metric("latency_p50", "Latency, median", "s", "lower", headline=True),
    Metric("latency_p90", "Latency, 90 % of transactions", "s", "lower"),
    Metric("latency_p99", "Latency, 99 %", "s", "lower"),
    Metric("latency_p999", "Latency, 99.9 %", "s", "lower"),
    Metric("latency_mean", "Latency, mean", "s", "lower"),
    Metric("transactions", "Transactions", "transactions/s", "higher", headline=True),
    Metric("connections", "New connections", "connections/s", "higher", headline=True),
    *costs("s/transaction"),
)
TOPOLOGY = CLIENT_AND_SERVER
TEST = Port("test", "tcp", ("server",))
PORTS = (TEST, CONTROL)
FAMILY = "python"
WRITABLE = False
MEMORY = 2**27

INTERVAL_NS = 500_000_000
MOST_SECONDS = 3600
MOST_BYTES = 2**20
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
BACKLOG = 128
TICK_S = 0.1
NANO = 1e9


@dataclass(frozen=True)
class Options(_ends.Options):
    """Options of `request_response`."""

    connection: Literal["kept", "new"] = field(
        default="kept",
        metadata={
            "help": "one for all transactions, or a new one for each: connect, request, response, "
            "close by the server",
            "unit": "",
        },
    )
    request_size: int = field(default=1, metadata={"help": "of a request", "unit": "bytes"})
    response_size: int = field(default=1, metadata={"help": "of a response", "unit": "bytes"})
    warmup: int = field(default=1, metadata={"help": "before the measured window", "unit": "s"})
    duration: int = field(default=10, metadata={"help": "of the measured window", "unit": "s"})

    def __post_init__(self) -> None:
        """Refuses sizes and times out of bounds."""
        self.at_least(1, "request_size", "response_size", "duration")
        self.at_least(0, "warmup")
        self.at_most(MOST_BYTES, "request_size", "response_size")
        self.at_most(MOST_SECONDS, "warmup", "duration")


def estimate(options: Options, _cores: float) -> float:
    """Seconds: its own time, and that of the ends to meet."""
    return 5.0 + options.warmup + options.duration


def run(options: Options, context: Context) -> None:
    """The part of this member."""
    peers = context.peers
    assert peers is not None  # noqa: S101 - of a topology with several members
    with meeting(options, context) as link:
        if peers.me.role == "server":
            _serve(options, context, link, peers)
        else:
            _ask(options, context, link, peers)


def _serve(options: Options, context: Context, link: Link, peers: Peers) -> None:
    """Answers until the client says that it is done; it says as well when the window begins."""
    with socket.create_server(("0.0.0.0", peers.me.ports[TEST.name]), backlog=BACKLOG) as listener:  # noqa: S104
        server = threading.Thread(target=_answer, args=(options, listener), daemon=True)
        server.start()
        link.tell({"listens": True})
        link.hear()
        before = Spent.now()
        done = link.hear()["transactions"]
        tell_costs(context, Spent.now().since(before), done)


def _answer(options: Options, listener: socket.socket) -> None:
    """One connection after the other; each is closed here, after its one response or at its end."""
    request, response = memoryview(bytearray(options.request_size)), bytes(options.response_size)
    once = options.connection == "new"
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # the test is over
            return
        with connection, contextlib.suppress(OSError):
            _at_once(connection)
            while _receive(connection, request):
                connection.sendall(response)
                if once:
                    break


def _ask(options: Options, context: Context, link: Link, peers: Peers) -> None:
    (server,) = peers.of("server")
    link.hear()
    # A name is looked up once: an engine's name service is no part of a transaction.
    host, port = server.address(TEST.name)
    address = (socket.gethostbyname(host), port)
    with contextlib.ExitStack() as stack:
        transact = _transaction(options, address, peers.silent_s, stack)
        context.mark("first_step_begin")
        number = 0
        if options.warmup:
            _, number = _for(options.warmup, "warmup", number, transact, context, link)
        link.tell({"begins": True})
        before = Spent.now()
        begin = time.perf_counter_ns()
        took, _ = _for(options.duration, "measured", number, transact, context, link)
        seconds = (time.perf_counter_ns() - begin) / NANO
        spent = Spent.now().since(before)
        link.tell({"transactions": len(took)})
    tell_costs(context, spent, len(took))
    _tell(options, context, took, seconds)


def _transaction(
    options: Options, address: tuple[str, int], silent_s: float, stack: contextlib.ExitStack
) -> Callable[[], None]:
    """What one transaction is. It raises FailureError where the server closes too early."""
    request, response = bytes(options.request_size), memoryview(bytearray(options.response_size))

    def exchange(connection: socket.socket) -> None:
        connection.sendall(request)
        if not _receive(connection, response):
            raise FailureError("the server closed the connection before its response")

    def over_a_new_one() -> None:
        with socket.create_connection(address) as connection:
            _at_once(connection)
            exchange(connection)
            # The server closes first, so that it is not this end that runs out of ports.
            if connection.recv(1):
                raise FailureError("the server sent more than its response")

    if options.connection == "new":
        return over_a_new_one
    kept = stack.enter_context(socket.create_connection(address))
    _at_once(kept)
    watch(kept, silent_s)
    return lambda: exchange(kept)


def _for(
    seconds: int,
    phase: str,
    number: int,
    transact: Callable[[], None],
    context: Context,
    link: Link,
) -> tuple[array[int], int]:
    """Transactions for so long: what each took (ns), and the number of the last step.

    A step is what was done in half a second. The other end is looked at between steps.
    """
    clock = time.perf_counter_ns
    found = array("Q")
    end = clock() + seconds * 1_000_000_000
    now = clock()
    try:
        while now < end:
            begin, before, wall, mono = now, len(found), time.time(), time.monotonic()
            until = min(begin + INTERVAL_NS, end)
            while now < until:
                transact()
                after = clock()
                found.append(after - now)
                now = after
            number += 1
            took = (now - begin) / NANO
            context.steps.add(
                (phase, number, 0, mono, wall, len(found) - before, None, 0.0, took, took, took)
            )
            link.check()
            now = clock()
    except PeerError:
        raise
    except (OSError, FailureError) as error:
        link.check(TICK_S)  # where the other end was lost, that is what it follows from
        raise FailureError(f"after {len(found)} transactions: {error}") from error
    return found, number


def _tell(options: Options, context: Context, took: array[int], seconds: float) -> None:
    ordered = sorted(took)
    for name, share in PERCENTILES.items():
        context.scalar(f"latency_{name}", percentile(ordered, share) / NANO)
    context.scalar("latency_mean", sum(ordered) / len(ordered) / NANO)
    rate = "connections" if options.connection == "new" else "transactions"
    context.scalar(rate, len(ordered) / seconds)


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest value that at least that share of all do not exceed (the nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _at_once(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _receive(connection: socket.socket, into: memoryview) -> bool:
    """Whether all of it came; not, where the other end closed before."""
    count = 0
    while count < len(into):
        more = connection.recv_into(into[count:])
        if not more:
            return False
        count += more
    return True
