"""Sums a vector over all workers by a ring (Patarasuk and Yuan, JPDC 69, 2009).

Each worker sends to the next one only, 2 (n - 1) / n of the vector in all, which is the least
that is possible. The vector is cut into n chunks. In phase s worker r sends chunk r - s and
receives chunk r - s - 1; in the first n - 1 phases it adds what it receives, in the others it
keeps it. A phase needs of the one before only the same bytes, so bytes are sent on as soon as
they are added: sending, receiving and adding overlap in pieces small enough for the cache, and
no phase waits for the end of another. One thread does it all; the kernel moves the bytes.
"""

import select

import numpy as np
from numpy.typing import NDArray

from workloads._wire import Link

SEGMENT = 1 << 18  # bytes that are added at once
READY = b"\1"
ITEM = 4  # bytes of a float32

Vector = NDArray[np.float32]


class Ring:
    """The worker's links to the next worker and from the previous one."""

    def __init__(self, index: int, count: int, links: tuple[Link, Link] | None) -> None:
        """`links`: onward, inward; None for a lone worker."""
        self.index, self.count, self.links = index, count, links
        self.scratch = np.empty(SEGMENT // ITEM, np.float32)

    def reduce(self, vector: Vector, scale: float = 1.0) -> None:
        """In place, the sum over all workers times `scale`: the same bits in each.

        All give vectors of the same length. PeerError when a neighbour is gone.
        """
        if self.links is not None:
            _Reduction(self, self.links, vector, scale).run()
        elif scale != 1.0:
            vector *= np.float32(scale)


class _Reduction:
    """One vector under way."""

    def __init__(self, ring: Ring, links: tuple[Link, Link], vector: Vector, scale: float) -> None:
        self.onward, self.inward = links
        self.count, self.index, self.scale = ring.count, ring.index, np.float32(scale)
        self.vector, self.bytes = vector, vector.data.cast("B")
        self.scratch, self.landing = ring.scratch, ring.scratch.data.cast("B")
        self.bounds = [ITEM * (len(vector) * n // ring.count) for n in range(ring.count + 1)]
        self.phases = 2 * (ring.count - 1)
        self.asked = False  # whether the next worker is there to receive
        self.out_phase = self.out_at = 0
        self.in_phase = self.in_at = self.landed = 0

    def run(self) -> None:
        # Without this a worker that still computes would be sent more than its buffers hold,
        # and TCP would take its closed window for a lost peer.
        self.inward.send(READY)
        while True:
            self._skip_empty()
            moved = self._send() + self._receive()
            if self.out_phase == self.phases and self.in_phase == self.phases:
                return
            if not moved:
                self._wait()

    def _chunk(self, phase: int) -> tuple[int, int]:
        """Bytes of the chunk that is sent in that phase."""
        number = (self.index - phase) % self.count
        return self.bounds[number], self.bounds[number + 1]

    def _sendable(self) -> int:
        """Bytes of the chunk to send that are final for its phase."""
        begin, end = self._chunk(self.out_phase)
        if self.out_phase == 0 or self.in_phase >= self.out_phase:
            return end - begin
        return self.in_at if self.in_phase == self.out_phase - 1 else 0

    def _send(self) -> int:
        """Bytes sent, one piece at the most."""
        if self.out_phase == self.phases:
            return 0
        if not self.asked:
            self.asked = self.onward.receive_some(memoryview(bytearray(1))) == 1
        limit = min(self._sendable(), self.out_at + SEGMENT)
        if not self.asked or limit <= self.out_at:
            return 0
        begin, end = self._chunk(self.out_phase)
        sent = self.onward.send_some(self.bytes[begin + self.out_at : begin + limit])
        self.out_at += sent
        if begin + self.out_at == end:
            self.out_phase, self.out_at = self.out_phase + 1, 0
        return sent

    def _receive(self) -> int:
        """Bytes received, one piece at the most."""
        if self.in_phase == self.phases:
            return 0
        begin, end = self._chunk(self.in_phase + 1)
        add = self._add if self.in_phase < self.count - 1 else self._keep
        received = add(begin + self.in_at, min(end, begin + self.in_at + SEGMENT))
        if begin + self.in_at == end:
            self.in_phase, self.in_at = self.in_phase + 1, 0
        return received

    def _add(self, begin: int, end: int) -> int:
        """Adds a piece when all of it has landed; the last to add also scales."""
        received = self.inward.receive_some(self.landing[self.landed : end - begin])
        self.landed += received
        if self.landed == end - begin:
            part = self.vector[begin // ITEM : end // ITEM]
            np.add(part, self.scratch[: len(part)], out=part)
            if self.in_phase == self.count - 2 and self.scale != 1:
                np.multiply(part, self.scale, out=part)
            self.in_at, self.landed = self.in_at + end - begin, 0
        return received

    def _keep(self, begin: int, end: int) -> int:
        received = self.inward.receive_some(self.bytes[begin:end])
        self.in_at += received
        return received

    def _skip_empty(self) -> None:
        """Passes chunks without a byte: a vector shorter than the ring has such."""
        while self.out_phase < self.phases and self._is_empty(self.out_phase):
            self.out_phase += 1
        while self.in_phase < self.phases and self._is_empty(self.in_phase + 1):
            self.in_phase += 1

    def _is_empty(self, phase: int) -> bool:
        begin, end = self._chunk(phase)
        return begin == end

    def _wait(self) -> None:
        """Until something can move; PeerError when the next worker has closed its side."""
        onward = select.POLLRDHUP
        if self.out_phase < self.phases:
            if not self.asked:
                onward |= select.POLLIN
            elif self._sendable() > self.out_at:
                onward |= select.POLLOUT
        poll = select.poll()
        poll.register(self.onward.fd, onward)
        if self.in_phase < self.phases:
            poll.register(self.inward.fd, select.POLLIN)
        gone = select.POLLRDHUP | select.POLLHUP | select.POLLERR
        for fd, events in poll.poll():
            if fd == self.onward.fd and events & gone and not events & select.POLLIN:
                raise self.onward.gone()
