"""iperf3 between a client and a server: throughput, what was lost or sent again, and what it costs.

The real tool of the image runs at both ends, once for each trial; `output` reads what it says. The
steps are its intervals at the receiving end, so that a throughput that changes is seen.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from workloads import _ends, _options
from workloads._declare import CLIENT_AND_SERVER, Metric, Port
from workloads._ends import CONTROL, Spent, costs, meeting, tell_costs
from workloads._output import Context, FailureError
from workloads._peers import Peers
from workloads._tool import OutputError, Process
from workloads._wire import Link
from workloads.iperf3 import output
from workloads.iperf3.output import Interval

COMMON = ("protocol", "streams", "direction", "rate", "duration")
ITEMS = "bytes"
METRICS = (
    Metric("throughput", "Throughput", "bit/s", "higher", headline=True),
    Metric("retransmits", "Segments sent again", "segments/GB", "lower"),
    Metric("loss", "Datagrams lost", "1", "lower"),
    Metric("jitter", "Jitter", "s", "lower"),
    *costs("s/GB"),
)
TOPOLOGY = CLIENT_AND_SERVER
# iperf3 wants one number for both protocols: the first port of each protocol of a member has it.
TEST, DATAGRAMS = Port("test", "tcp", ("server",)), Port("datagrams", "udp", ("server",))
PORTS = (TEST, DATAGRAMS, CONTROL)
FAMILY = "tools"
WRITABLE = False
MEMORY = 2**27

INTERVAL_S = 0.5
GB = 1e9
TICK_S = 0.1
END_S = 10.0  # how long the server's iperf3 may take to end after the client's has ended
# iperf3's own limits.
MOST_STREAMS = 128
MOST_SECONDS = 86400
MOST_BYTES = {"tcp": 2**20, "udp": 65507}
LEAST_DATAGRAM = 16
LISTENS = "0A"  # TCP_LISTEN, as /proc/net/tcp has it


@dataclass(frozen=True)
class Options(_ends.Options):
    """Options of `iperf3`."""

    protocol: Literal["tcp", "udp"] = field(
        default="tcp", metadata={"help": "what carries the data", "unit": ""}
    )
    streams: int = field(default=1, metadata={"help": "connections at once", "unit": "1"})
    direction: Literal["to_server", "from_server", "both"] = field(
        default="to_server", metadata={"help": "which way the data goes", "unit": ""}
    )
    rate: int = field(
        default=0,
        metadata={"help": "of each stream and direction; 0: as fast as it goes", "unit": "bit/s"},
    )
    block_size: int = field(
        default=0,
        metadata={
            "help": "of a write, or of a datagram; 0: iperf3's own, 128 KiB, or what the path "
            "takes in one packet",
            "unit": "bytes",
        },
    )
    warmup: int = field(
        default=2,
        metadata={"help": "before the measured window, for TCP to find its pace", "unit": "s"},
    )
    duration: int = field(default=10, metadata={"help": "of the measured window", "unit": "s"})

    def __post_init__(self) -> None:
        """Refuses what iperf3 cannot do."""
        self.at_least(1, "streams", "duration")
        self.at_least(0, "rate", "block_size", "warmup")
        self.at_most(MOST_STREAMS, "streams")
        self.at_most(MOST_SECONDS, "warmup", "duration")
        self.at_most(MOST_BYTES[self.protocol], "block_size")
        if self.protocol == "udp" and 0 < self.block_size < LEAST_DATAGRAM:
            rule = f"a datagram must have at least {LEAST_DATAGRAM} bytes"
            raise _options.refuse("block_size", rule, 1400, self.block_size)


def estimate(options: Options, _cores: float) -> float:
    """Seconds: its own time, and that of the ends to meet."""
    return 5.0 + options.warmup + options.duration


def run(options: Options, context: Context) -> None:
    """The part of this member: the server's iperf3, or the client's."""
    peers = context.peers
    assert peers is not None  # noqa: S101 - of a topology with several members
    numbers = {
        member.ports[port.name] for member in peers.of("server") for port in (TEST, DATAGRAMS)
    }
    if len(numbers) != 1:
        raise FailureError(
            f"iperf3 needs one port number for TCP and UDP; given: {sorted(numbers)}"
        )
    with meeting(options, context) as link:
        if peers.me.role == "server":
            _serve(context, link, numbers.pop())
        else:
            _ask(options, context, link, peers)


def _serve(context: Context, link: Link, port: int) -> None:
    before = Spent.now()
    command = ["iperf3", "--server", "--one-off", "--json", "--interval", str(INTERVAL_S)]
    with Process([*command, "--port", str(port)], context.out, FAMILY) as tool:
        while not listens(port):
            tool.must_run()
            time.sleep(0.01)
        link.tell({"listens": port})
        moved = link.hear()["moved"]
        tool.wait(END_S)
    tell_costs(context, Spent.now().since(before), moved / GB)


def _ask(options: Options, context: Context, link: Link, peers: Peers) -> None:
    (server,) = peers.of("server")
    host, port = server.address(TEST.name)
    link.hear()
    before, wall = Spent.now(), time.time()
    begin = context.mark("first_step_begin")
    with Process(arguments(options, host, port), context.out, FAMILY) as tool:
        while not tool.wait(TICK_S):
            link.check()
        spent = Spent.now().since(before)
        try:
            found = output.parse(tool.said(), options.protocol, options.direction)
        except OutputError:
            link.check(TICK_S)  # where the other end was lost, that is what it follows from
            raise
    link.tell({"moved": found.moved})
    context.environment |= {"iperf3": found.version}
    if found.congestion_control:
        context.environment["congestion_control"] = found.congestion_control
    _tell(options, context, found)
    _tell_steps(options, context, found, begin, wall)
    tell_costs(context, spent, found.moved / GB)


def arguments(options: Options, host: str, port: int) -> list[str]:
    """The command line of the client."""
    given = {
        "--client": host,
        "--port": port,
        "--time": options.warmup + options.duration,
        "--interval": INTERVAL_S,
        "--parallel": options.streams,
        "--bitrate": options.rate,
    }
    if options.block_size:
        given["--length"] = options.block_size
    flags = {"to_server": [], "from_server": ["--reverse"], "both": ["--bidir"]}[options.direction]
    flags += ["--udp"] if options.protocol == "udp" else []
    pairs = [str(word) for pair in given.items() for word in pair]
    return ["iperf3", *pairs, *flags, "--json", "--get-server-output"]


def _tell(options: Options, context: Context, found: output.Test) -> None:
    """The figures of the measured window."""
    received, sent = (
        [output.measured(way, options.warmup, INTERVAL_S) for way in ways]
        for ways in (found.received, found.sent)
    )
    for way in received:
        if not sum(one.bytes for one in way):
            raise OutputError(
                f"{found.version}: data must arrive in the measured window; "
                f"given: {len(way)} intervals, 0 bytes"
            )
    rates = [sum(one.bytes for one in way) / sum(one.seconds for one in way) for way in received]
    context.scalar("throughput", 8 * sum(rates))
    if options.protocol == "tcp":
        ours = [one for way in sent for one in way]
        gigabytes = sum(one.bytes for one in ours) / GB
        context.scalar("retransmits", sum(one.retransmits for one in ours) / gigabytes)
        return
    theirs = [one for way in received for one in way]
    context.scalar("loss", sum(one.lost for one in theirs) / sum(one.packets for one in theirs))
    context.scalar("jitter", statistics.mean(one.jitter for one in theirs))


def _tell_steps(
    options: Options, context: Context, found: output.Test, begin: float, wall: float
) -> None:
    """A step for each interval; where data goes both ways, what both receivers got in it."""
    whole = [output.measured(way, 0, INTERVAL_S) for way in found.received]
    for number, row in enumerate(zip(*whole, strict=False), 1):
        first: Interval = row[0]
        warm = first.start <= options.warmup - INTERVAL_S / 2
        took, count = first.seconds, sum(one.bytes for one in row)
        at = (begin + first.start, wall + first.start)
        context.steps.add(
            ("warmup" if warm else "measured", number, 0, *at, count, None, 0.0, took, took, took)
        )


def listens(port: int, folder: Path = Path("/proc/net")) -> bool:
    """Whether something listens on that port of this network namespace, over TCP."""
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        if (folder / name).exists()
        for line in (folder / name).read_text().splitlines()[1:]
    ]
    return any(line[3] == LISTENS and int(line[1].split(":")[1], 16) == port for line in lines)
