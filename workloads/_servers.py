"""Parameter servers: the parameters, cut by bytes over the servers, and the rule that updates them.

The parameters are one flat vector; a server holds an even share of it in parts of a few
megabytes. A step of a worker is one stream in each direction: it sends a header and its
gradient, and receives new values part by part, each as soon as it is there, so that both
directions of the link are in use at once. The update rule is the lone workload's own optimizer,
whose rules work element by element, so that a vector cut anywhere gives the same values.

    asynchronous  a part of a gradient is applied when it comes, whoever sent it
    synchronous   a part is applied once, when it has come from every worker: their mean
"""

import select
import struct
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads._options import BadInputError
from workloads._output import FailureError
from workloads._wire import Flow, Link, PeerError, pump

HEADER = struct.Struct("<II")  # kind, whether this worker was told to end
TRAILER = struct.Struct("<QI")  # global steps so far, whether any worker was told to end
STEP, GOODBYE = 0x5354, 0x4247
PART_BYTES = 2 << 20  # at least: what is applied and sent back at once
PARTS = 32  # at most: each costs a trace of the update
ALIGN = 16  # float32 values: 64 bytes, which TensorFlow takes over without a copy
ITEM = 4

Vector = NDArray[np.float32]
Views = deque[memoryview]


def aligned(length: int) -> Vector:
    """A vector of zeros at an address that TensorFlow takes over without a copy."""
    raw = np.zeros(length + ALIGN, np.float32)
    begin = (-raw.ctypes.data % (ALIGN * ITEM)) // ITEM
    return raw[begin : begin + length]


def cuts(length: int, count: int) -> list[tuple[int, int]]:
    """Even, aligned cuts of a vector, (begin, end) each."""
    at = [min(length, -(-length * n // count // ALIGN) * ALIGN) for n in range(count)]
    return list(pairwise([*at, length]))


class Client:
    """A worker's side: pushes its gradient to all servers and pulls the new values."""

    def __init__(self, links: Sequence[Link], length: int) -> None:
        """`links` in the order of the servers; `length` of the whole vector."""
        if length < ALIGN * len(links):
            raise BadInputError(
                f"servers: must be at most one for {ALIGN} parameters (example: servers: 1); "
                f"given: {len(links)} servers, {length} parameters"
            )
        self._links = links
        self._cuts = cuts(length, len(links))
        self._trailers = [bytearray(TRAILER.size) for _ in links]
        self.global_steps = 0  # as the first server counted after this worker's last one

    def give(self, values: Vector) -> None:
        """The initial values: every server waits for them, from the chief."""
        for link, (begin, end) in zip(self._links, self._cuts, strict=True):
            link.tell({"length": end - begin})
            link.send(values[begin:end].data.cast("B"))

    def exchange(self, gradient: Vector, values: Vector, ending: bool) -> bool:
        """Fills `values`; whether the workers of a synchronous step are told to end."""
        header = memoryview(HEADER.pack(STEP, ending))
        pump([
            Flow(
                link,
                [header, gradient[begin:end].data.cast("B")],
                [values[begin:end].data.cast("B"), memoryview(trailer)],
            )
            for link, (begin, end), trailer in zip(
                self._links, self._cuts, self._trailers, strict=True
            )
        ])  # fmt: skip
        self.global_steps, said = TRAILER.unpack(self._trailers[0])
        return bool(said)

    def goodbye(self) -> None:
        """After the last step: a server ends when all have said so."""
        for link in self._links:
            link.send(HEADER.pack(GOODBYE, 0))


class Part:
    """Some megabytes of the parameters with the state of their optimizer."""

    def __init__(self, values: Vector, optimizer: Any) -> None:
        """Traces the update; nothing is applied yet."""
        import keras  # noqa: PLC0415  heavy
        import tensorflow as tf  # noqa: PLC0415

        self.length = len(values)
        self.sum = aligned(self.length)
        self.given = 0  # gradients in the sum
        variable = keras.Variable(values, dtype="float32")
        optimizer.build([variable])

        def update(gradient: Any) -> Any:
            optimizer.apply([gradient], [variable])
            return variable.value.read_value()

        signature = [tf.TensorSpec([self.length], tf.float32)]
        self._update = tf.function(update, signature, autograph=False).get_concrete_function()
        self._tensor = tf.experimental.dlpack.from_dlpack  # without a copy

    def apply(self, gradient: Vector) -> memoryview:
        """The values after one update. The view stays as it is when later updates come."""
        new = self._update(self._tensor(gradient.__dlpack__()))
        return np.asarray(new).data.cast("B")


class Server:
    """One server's share of the parameters, from the initial values to the last goodbye."""

    def __init__(self, links: Sequence[Link], make: Callable[[], Any], synchronous: bool) -> None:
        """`links` in the order of the workers; `make` gives a new optimizer."""
        self._workers, self._make, self.synchronous = len(links), make, synchronous
        self._links = links
        self.parts: list[Part] = []
        self._sessions: dict[int, _Session] = {}
        self.updates = 0  # how often the parameters changed
        self.global_steps = 0  # gradients of workers that were applied
        self.ending = False

    def prepare(self) -> None:
        """Receives the initial values from the chief and makes the parts."""
        chief = self._links[0]
        values = aligned(int(chief.hear()["length"]))
        chief.receive_into(values.data.cast("B"))
        size = len(values) * ITEM
        count = max(1, min(PARTS, size // PART_BYTES))
        self.parts = [Part(values[b:e], self._make()) for b, e in cuts(len(values), count)]
        self._sessions = {link.fd: _Session(link, self) for link in self._links}

    def serve(self) -> None:
        """Until every worker has said goodbye; PeerError when one is lost before."""
        poll = select.poll()
        masks: dict[int, int] = {}
        while self._sessions:
            for fd, session in list(self._sessions.items()):
                mask = session.flush()
                if session.over and not mask & select.POLLOUT:
                    del self._sessions[fd]
                    if fd in masks:
                        poll.unregister(fd)
                elif masks.get(fd) != mask:
                    poll.register(fd, mask)
                    masks[fd] = mask
            for fd, _ in poll.poll() if self._sessions else []:
                session = self._sessions[fd]
                if not session.over:
                    session.receive()

    def take(self, session: "_Session", number: int, gradient: Vector) -> None:
        """A part of one worker's gradient has come."""
        part, last = self.parts[number], number == len(self.parts) - 1
        if not self.synchronous:
            session.out.append(part.apply(gradient))
            if last:
                self._count(1)
                session.out.append(self._trailer(session.ending))
            return
        if part.given == 0:
            np.copyto(part.sum, gradient)
        else:
            np.add(part.sum, gradient, out=part.sum)
        part.given += 1
        self.ending |= session.ending
        if len(self._sessions) < self._workers:
            raise FailureError("a worker ended before the others, which synchronous steps forbid")
        if part.given < self._workers:
            return
        part.given = 0
        np.multiply(part.sum, np.float32(1 / self._workers), out=part.sum)
        new = part.apply(part.sum)
        if last:
            self._count(self._workers)
        for each in self._sessions.values():
            each.out.append(new)
            if last:
                each.out.append(self._trailer(self.ending))
        if last:
            self.ending = False

    def _count(self, gradients: int) -> None:
        self.updates += 1
        self.global_steps += gradients

    def _trailer(self, ending: bool) -> memoryview:
        return memoryview(TRAILER.pack(self.global_steps, ending))


class _Session:
    """What one worker is sending, and what is to be sent to it."""

    def __init__(self, link: Link, server: Server) -> None:
        self.link, self.server = link, server
        self.out: Views = deque()
        self.ending = self.over = False
        self._buffer = aligned(max(part.length for part in server.parts))
        self._bytes = self._buffer.data.cast("B")
        self._header = bytearray(HEADER.size)
        self._number = -1  # of the part that is coming; -1: a header
        self._at = 0

    def flush(self) -> int:
        """Sends what can be sent; the events to wait for."""
        while self.out:
            sent = self.link.send_some(self.out[0])
            if not sent:
                return select.POLLIN | select.POLLOUT
            rest = self.out[0][sent:]
            if rest:
                self.out[0] = rest
            else:
                self.out.popleft()
        return select.POLLIN

    def receive(self) -> None:
        """What has come, up to the end of a header or a part."""
        target = memoryview(self._header) if self._number < 0 else self._landing()
        self._at += self.link.receive_some(target[self._at :])
        if self._at < len(target):
            return
        self._at = 0
        if self._number < 0:
            self._begin()
            return
        number = self._number
        self._number = -1 if number == len(self.server.parts) - 1 else number + 1
        self.server.take(self, number, self._buffer[: self.server.parts[number].length])

    def _landing(self) -> memoryview:
        return self._bytes[: ITEM * self.server.parts[self._number].length]

    def _begin(self) -> None:
        kind, ending = HEADER.unpack(self._header)
        if kind not in (STEP, GOODBYE):
            raise PeerError(f"{self.link.peer} sent what is no step")
        self.ending, self.over = bool(ending), kind == GOODBYE
        if kind == STEP:
            self._number = 0
