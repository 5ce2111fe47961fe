"""What iperf3 says with `--json --get-server-output`, read.

All figures come from the intervals, of which the warm-up is cut here. iperf3's own way of leaving
it out (`--omit`) is not used: in version 3.12 the losses of the warm-up stay in the total of UDP,
and the first interval after it may be counted as twice as long as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workloads._tool import Document, OutputError, from_json

KNOWN = "iperf 3.12"
Direction = Literal["to_server", "from_server", "both"]
# Where the intervals of each receiver stand, and of each sender: in the client's own output or in
# the server's, which the client's holds, and under which name.
CLIENT, SERVER = (), ("server_output_json",)
RECEIVERS = {
    "to_server": ((SERVER, "sum"),),
    "from_server": ((CLIENT, "sum"),),
    "both": ((SERVER, "sum"), (CLIENT, "sum_bidir_reverse")),
}
SENDERS = {
    "to_server": ((CLIENT, "sum"),),
    "from_server": ((SERVER, "sum"),),
    "both": ((CLIENT, "sum"), (SERVER, "sum_bidir_reverse")),
}


@dataclass(frozen=True)
class Interval:
    """What all streams in one direction did in some time, as one end saw it."""

    start: float  # s since the begin of the test
    seconds: float
    bytes: int
    retransmits: int = 0  # of TCP, by a sender
    packets: int = 0  # of UDP, seen or missed by a receiver
    lost: int = 0
    jitter: float = 0.0  # s


@dataclass(frozen=True)
class Test:
    """A test that ended well. A list of intervals for each direction in which data went."""

    version: str
    congestion_control: str  # of TCP, of the client; '' of UDP
    received: tuple[tuple[Interval, ...], ...]
    sent: tuple[tuple[Interval, ...], ...]

    @property
    def moved(self) -> int:
        """Bytes that arrived, in both directions, those of the warm-up too."""
        return sum(one.bytes for way in self.received for one in way)


def parse(text: str, protocol: Literal["tcp", "udp"], direction: Direction) -> Test:
    """A test from the client's output.

    OutputError names iperf3, its version, and the line or the key.
    """
    document = from_json("iperf3", text)
    version = _version(document)
    if isinstance(document, dict) and "error" in document:
        raise OutputError(f"{version}: {document['error']}")
    found = _Reader(version, KNOWN, document)
    return Test(
        version=version,
        congestion_control=found.text("end", "sender_tcp_congestion") if protocol == "tcp" else "",
        received=tuple(
            found.intervals(where, name, sends=False, udp=protocol == "udp")
            for where, name in RECEIVERS[direction]
        ),
        sent=tuple(
            found.intervals(where, name, sends=True, udp=protocol == "udp")
            for where, name in SENDERS[direction]
        ),
    )


def measured(intervals: Sequence[Interval], warmup: float, length: float) -> list[Interval]:
    """The whole intervals of that length (s) that begin after the warm-up.

    A short one at the end is what arrived when the test was over.
    """
    return [
        one for one in intervals if one.start > warmup - length / 2 and one.seconds > length / 2
    ]


def _version(document: Any) -> str:
    try:
        return str(document["start"]["version"])
    except (KeyError, TypeError):
        return "iperf3, of an unknown version"


class _Reader(Document):
    """The intervals of a test."""

    def intervals(
        self, where: Sequence[str], name: str, *, sends: bool, udp: bool
    ) -> tuple[Interval, ...]:
        path = (*where, "intervals")
        listed = self.get(*path)
        if not isinstance(listed, list) or not listed:
            raise self.error(path, f"it must be a list of intervals; given: {listed!r}"[:200])
        return tuple(
            self._interval((*path, n, name), sends=sends, udp=udp) for n in range(len(listed))
        )

    def _interval(self, at: Sequence[str | int], *, sends: bool, udp: bool) -> Interval:
        if self.get(*at, "sender") is not sends:
            raise self.error((*at, "sender"), f"it must be {str(sends).lower()}")
        start, seconds, count = (self.number(*at, key) for key in ("start", "seconds", "bytes"))
        if udp and not sends:
            packets, lost = self.number(*at, "packets"), self.number(*at, "lost_packets")
            jitter = self.number(*at, "jitter_ms") / 1000
            return Interval(start, seconds, int(count), 0, int(packets), int(lost), jitter)
        again = 0.0 if udp or not sends else self.number(*at, "retransmits")
        return Interval(start, seconds, int(count), int(again))
