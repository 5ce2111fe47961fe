"""Goodput of links as training will use them: streams for half a second, timed where they arrive.

A sender goes on for a fixed time, so that a slow link costs no more of it than a fast one. What
arrives first is warm-up: TCP has not found the rate of the link yet. The window ends with the
first stream that ends, so that no stream is alone on a shared link while it is measured.
"""

import select
import time
from collections.abc import Sequence

from workloads._wire import Link

BLOCK = 1 << 16
MORE, LAST = b"\0", b"\1"
WARMUP_S = 0.2
MEASURED_S = 0.4


def measure(outgoing: Sequence[Link], incoming: Sequence[Link]) -> dict[Link, float]:
    """Bytes/s of each incoming link while all of them, and the outgoing ones, are in use."""
    return _Streams(outgoing, incoming).run()


class _Streams:
    """All streams of this process."""

    def __init__(self, outgoing: Sequence[Link], incoming: Sequence[Link]) -> None:
        self._more = memoryview(MORE + bytes(BLOCK - 1))
        self._last = memoryview(LAST + bytes(BLOCK - 1))
        self._sending = dict.fromkeys(outgoing, self._more)
        self._final: set[Link] = set()
        self._landing = {link: bytearray(BLOCK) for link in incoming}
        self._filled = dict.fromkeys(incoming, 0)
        self._receiving = set(incoming)
        self._bytes = dict.fromkeys(incoming, 0)
        self._warm: dict[Link, int] | None = None
        self._begin = self._end = 0.0
        self._ends: dict[Link, int] = {}

    def run(self) -> dict[Link, float]:
        stop = time.monotonic() + WARMUP_S + MEASURED_S
        while self._sending or self._receiving:
            poll = select.poll()
            for link in {*self._sending, *self._receiving}:
                out = select.POLLOUT if link in self._sending else 0
                poll.register(link.fd, out | (select.POLLIN if link in self._receiving else 0))
            poll.poll()
            for link in list(self._sending):
                self._send(link, time.monotonic() > stop)
            for link in list(self._receiving):
                self._receive(link)
        seconds = max(self._end - self._begin, 1e-6)
        warm = self._warm or {}
        return {link: (n - warm.get(link, 0)) / seconds for link, n in self._ends.items()}

    def _send(self, link: Link, stop: bool) -> None:
        rest = self._sending[link]
        rest = rest[link.send_some(rest) :]
        if not rest:
            if link in self._final:
                del self._sending[link]
                return
            rest = self._last if stop else self._more
            if stop:
                self._final.add(link)
        self._sending[link] = rest

    def _receive(self, link: Link) -> None:
        into, filled = self._landing[link], self._filled[link]
        count = link.receive_some(memoryview(into)[filled:])
        self._bytes[link] += count
        filled += count
        now = time.monotonic()
        self._begin = self._begin or now
        if self._warm is None and now - self._begin > WARMUP_S:
            self._begin, self._warm = now, dict(self._bytes)
        if filled == BLOCK:
            filled = 0
            if into[:1] == LAST:
                self._receiving.discard(link)
                if not self._ends:
                    self._end, self._ends = now, dict(self._bytes)
        self._filled[link] = filled
