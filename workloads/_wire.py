"""Connections between the processes of one trial: found with retry, authenticated, watched.

Nobody gets past the handshake who does not hold the trial's key; a stray connection is closed
and changes nothing. Handshake, over TCP:

    acceptor   MAGIC, nonce A
    connector  MAGIC, nonce C, length, hello, HMAC(key, "connect", A, C, hello)
    acceptor   HMAC(key, "accept", A, C, hello)

`hello` says what the connection is for, who connects and to whom. HMAC is with SHA-256. What
follows is neither encrypted nor signed: it is gradients, on the network under test.

A peer that was powered off or cut off is noticed by TCP itself: keepalive probes on an idle
connection, TCP_USER_TIMEOUT on one with data under way. A peer that computes for long still
acknowledges, so it is not taken for lost, as long as nobody sends it more than its buffers
hold while it does not read: every protocol on these links sees to that.
"""

import hmac
import json
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

from workloads._output import FailureError
from workloads._place import Member, Place

MAGIC = b"strata1\n"
NONCE = 32
MAC = 32
HELLO_BYTES = 512
MESSAGE_BYTES = 1 << 20
HANDSHAKE_S = 5.0
CONNECT_S = 3.0
RETRY_S = 0.2
ACCEPT_S = 0.1
KEEPALIVE_PROBES = 3
BACKLOG = 128
LENGTH = struct.Struct("<I")

Key = tuple[str, Member]  # kind of connection, peer


class Named(Protocol):
    """A member of a trial; as text it is how errors name it."""

    @property
    def role(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...


class Known(Protocol):
    """This process among the others, with the key that they share."""

    @property
    def me(self) -> Named: ...
    @property
    def key(self) -> bytes: ...


Peer = TypeVar("Peer", bound=Named)


class PeerError(FailureError):
    """A peer was not found, went away or failed: this process is not to blame."""

    status: ClassVar[int] = 75  # EX_TEMPFAIL of sysexits.h


class AbortedError(PeerError):
    """A peer says that the trial has failed, and why."""


class Link:
    """One authenticated connection; counts its bytes. The socket never blocks by itself."""

    def __init__(self, connection: socket.socket, peer: Named, silent_s: float) -> None:
        """Sets what makes a lost peer known after about `silent_s`."""
        self.socket, self.peer = connection, peer
        self.sent = self.received = 0
        self.fd = connection.fileno()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        watch(connection, silent_s)

    def send_some(self, data: memoryview) -> int:
        """Bytes that were taken, 0 when the buffer is full; PeerError when the peer is gone."""
        try:
            count = self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.lost(error) from error
        self.sent += count
        return count

    def receive_some(self, into: memoryview) -> int:
        """Bytes that came, 0 when there are none yet; PeerError when the peer is gone."""
        try:
            count = self.socket.recv_into(into)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.lost(error) from error
        if count == 0:
            raise self.lost()
        self.received += count
        return count

    def send(self, data: bytes | memoryview) -> None:
        """All of it."""
        view = memoryview(data)
        while view:
            view = view[self.send_some(view) :]
            if view:
                wait_for([self], select.POLLOUT)

    def receive(self, count: int) -> bytes:
        """Exactly that many bytes."""
        into = bytearray(count)
        self.receive_into(memoryview(into))
        return bytes(into)

    def receive_into(self, view: memoryview) -> None:
        """Fills it."""
        while view:
            view = view[self.receive_some(view) :]
            if view:
                wait_for([self], select.POLLIN)

    def tell(self, message: dict[str, Any]) -> None:
        """One message, as JSON."""
        text = json.dumps(message).encode()
        self.send(LENGTH.pack(len(text)) + text)

    def hear(self) -> dict[str, Any]:
        """The next message; PeerError when the peer says that the trial has failed."""
        (length,) = LENGTH.unpack(self.receive(LENGTH.size))
        if length > MESSAGE_BYTES:
            raise PeerError(f"{self.peer} sent a message of {length} bytes, which no peer does")
        message: dict[str, Any] = json.loads(self.receive(length))
        if "abort" in message:
            raise AbortedError(message["abort"])
        return message

    def check(self, seconds: float = 0.0) -> None:
        """PeerError when the peer, of whom nothing is awaited now, has gone or failed."""
        if wait_for([self], select.POLLIN, seconds):
            message = self.hear()
            raise PeerError(f"{self.peer} sent what is not awaited: {message}")

    def lost(self, why: OSError | None = None) -> PeerError:
        """The error that names the peer."""
        how = f"{why.strerror or why}" if why else "it closed its connection"
        return PeerError(f"{self.peer} was lost: {how}")

    def gone(self) -> PeerError:
        """The error of a connection that has ended: why stands behind what was sent before."""
        into = memoryview(bytearray(4096))
        try:
            while self.receive_some(into):
                pass
        except PeerError as error:
            return error
        return self.lost()

    def close(self) -> None:
        """What was sent before still arrives."""
        self.socket.close()


def watch(connection: socket.socket, silent_s: float) -> None:
    """Keepalive for an idle connection, the user timeout for data that nobody acknowledges."""
    interval = max(1, round(silent_s / (2 * KEEPALIVE_PROBES)))
    idle = max(1, round(silent_s) - KEEPALIVE_PROBES * interval)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, idle),
        (socket.TCP_KEEPINTVL, interval),
        (socket.TCP_KEEPCNT, KEEPALIVE_PROBES),
        (socket.TCP_USER_TIMEOUT, round(silent_s * 1000)),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def wait_for(links: Iterable[Link], events: int, seconds: float | None = None) -> list[int]:
    """File descriptors of the links that are ready, or closed; none after that time."""
    poll = select.poll()
    for link in links:
        poll.register(link.fd, events)
    return [fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)]


@dataclass
class Flow:
    """What goes over one link at the same time in both directions, in order."""

    link: Link
    outgoing: Sequence[memoryview]
    incoming: Sequence[memoryview]


def pump(flows: Sequence[Flow]) -> None:
    """Sends and receives all of it, on all links and in both directions at once."""
    active = {flow.link.fd: _Pump(flow) for flow in flows}
    poll = select.poll()
    masks: dict[int, int] = {}
    while active:
        for fd, each in list(active.items()):
            mask = each.move()
            if mask == 0:
                del active[fd]
                if fd in masks:
                    poll.unregister(fd)
            elif masks.get(fd) != mask:
                poll.register(fd, mask)
                masks[fd] = mask
        if active:
            poll.poll()


class _Pump:
    """One flow under way."""

    def __init__(self, flow: Flow) -> None:
        self._link = flow.link
        self._out = [view for view in reversed(flow.outgoing) if view]
        self._in = [view for view in reversed(flow.incoming) if view]

    def move(self) -> int:
        """Moves what can be moved; the events to wait for, 0 when all is done."""
        while self._out or self._in:
            moved = 0
            if self._out:
                moved += self._step(self._out, self._link.send_some(self._out[-1]))
            if self._in:
                moved += self._step(self._in, self._link.receive_some(self._in[-1]))
            if not moved:
                break
        return (select.POLLOUT if self._out else 0) | (select.POLLIN if self._in else 0)

    @staticmethod
    def _step(views: list[memoryview], count: int) -> int:
        if count:
            rest = views[-1][count:]
            if rest:
                views[-1] = rest
            else:
                views.pop()
        return count


def wanted(place: Place) -> tuple[list[Key], list[Key]]:
    """Connections that this process opens, and those that it waits for."""
    opens: list[Key] = []
    awaits: list[Key] = []
    if place.me == place.chief:
        awaits += [("control", member) for member in place.members[1:]]
    else:
        opens.append(("control", place.chief))
    if place.mode == "ring" and len(place.workers) > 1:
        count, index = len(place.workers), place.me.index
        opens.append(("ring", place.workers[(index + 1) % count]))
        awaits.append(("ring", place.workers[(index - 1) % count]))
    elif place.me.role == "server":
        awaits += [("data", worker) for worker in place.workers]
    else:
        opens += [("data", server) for server in place.servers]
    return opens, awaits


@dataclass
class Links:
    """All connections of this process, by kind and peer."""

    opened: dict[Key, Link] = field(default_factory=dict)
    accepted: dict[Key, Link] = field(default_factory=dict)

    def of(self, kind: str) -> list[Link]:
        """Those of one kind, in the order of the peers."""
        found = [*self.opened.items(), *self.accepted.items()]
        return [link for (name, _), link in found if name == kind]

    def all(self) -> list[Link]:
        """Every one."""
        return [*self.opened.values(), *self.accepted.values()]

    def close(self) -> None:
        """All of them."""
        for link in self.all():
            link.close()


def find(place: Place) -> Links:
    """Opens and accepts every connection of this process; PeerError naming who was not found."""
    return _Search(place).run()


class _Search:
    """The rendezvous: a thread for each connection that is opened, one that accepts.

    Nothing listens any more when it is over.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._opens, self._awaits = wanted(place)
        self._links = Links()
        self._why: dict[Member, str] = {}
        self._deadline = time.monotonic() + place.find_s
        self._changed = threading.Condition()
        self._over = False

    def run(self) -> Links:
        """All links, in the order of the peers."""
        with self._listener() as listener:
            targets = [partial(self._accept_all, listener)]
            targets += [partial(self._open, key) for key in self._opens]
            threads = [threading.Thread(target=target, daemon=True) for target in targets]
            for thread in threads:
                thread.start()
            with self._changed:
                while self._missing() and (left := self._deadline - time.monotonic()) > 0:
                    self._changed.wait(left)
                missing, self._over = self._missing(), True
            threads[0].join()  # the listener must not be closed under it
        if missing:
            self._links.close()
            raise PeerError(self._sentence(missing))
        order = {member: number for number, member in enumerate(self._place.members)}
        for found in (self._links.opened, self._links.accepted):
            ordered = sorted(found.items(), key=lambda item: order[item[0][1]])
            found.clear()
            found.update(ordered)
        return self._links

    def _listener(self) -> socket.socket:
        try:
            return socket.create_server(("0.0.0.0", self._place.listen), backlog=BACKLOG)  # noqa: S104
        except OSError as error:
            raise FailureError(
                f"listen: the port must be free; given: {self._place.listen}: {error.strerror}"
            ) from error

    def _missing(self) -> list[Member]:
        """Peers without all of their connections, in order."""
        open_, accepted = self._links.opened, self._links.accepted
        lacking = {key[1] for key in self._opens if key not in open_}
        lacking |= {key[1] for key in self._awaits if key not in accepted}
        return [member for member in self._place.members if member in lacking]

    def _sentence(self, missing: list[Member]) -> str:
        named = [
            f"{member} ({self._why.get(member, 'it did not connect to this process')})"
            for member in missing
        ]
        return f"peers not found within {self._place.find_s:g} s: {', '.join(named)}"

    def _add(self, links: dict[Key, Link], key: Key, connection: socket.socket) -> None:
        with self._changed:
            if self._over:
                connection.close()
                return
            if key in links:  # the peer gave up an earlier attempt
                links[key].close()
            links[key] = Link(connection, key[1], self._place.silent_s)
            self._changed.notify()

    def _open(self, key: Key) -> None:
        kind, peer = key
        while not self._over and time.monotonic() < self._deadline:
            try:
                connection = socket.create_connection(peer.target, CONNECT_S)
            except OSError as error:
                self._why[peer] = error.strerror or str(error)
                time.sleep(RETRY_S)
                continue
            try:
                introduce(connection, self._place, kind, peer)
            except (OSError, HandshakeError) as error:
                self._why[peer] = f"handshake: {error}"
                connection.close()
                time.sleep(RETRY_S)
                continue
            self._add(self._links.opened, key, connection)
            return

    def _accept_all(self, listener: socket.socket) -> None:
        listener.settimeout(ACCEPT_S)
        while not self._over:
            try:
                connection, _ = listener.accept()
            except OSError:  # the time is over, or a client that was gone already
                continue
            threading.Thread(target=self._welcome, args=(connection,), daemon=True).start()

    def _welcome(self, connection: socket.socket) -> None:
        try:
            key = welcome(connection, self._place, self._awaits)
        except (OSError, HandshakeError):
            connection.close()  # whoever it was: no peer of this trial
            return
        self._add(self._links.accepted, key, connection)


class HandshakeError(Exception):
    """The other side is not the peer that is wanted."""


def introduce(connection: socket.socket, place: Known, kind: str, peer: Named) -> None:
    """The connector's side of the handshake."""
    deadline = time.monotonic() + HANDSHAKE_S
    challenge = _read(connection, len(MAGIC) + NONCE, deadline, "it closed before its challenge")
    if not challenge.startswith(MAGIC):
        raise HandshakeError("what listens there is something else")
    theirs, ours = challenge[len(MAGIC) :], secrets.token_bytes(NONCE)
    hello = json.dumps([kind, place.me.role, place.me.index, peer.role, peer.index]).encode()
    signed = theirs + ours + hello
    length = len(hello).to_bytes(2, "little")
    connection.sendall(MAGIC + ours + length + hello + _mac(place, b"connect", signed))
    proof = _read(connection, MAC, deadline, "it refused the key of this trial")
    if not hmac.compare_digest(proof, _mac(place, b"accept", signed)):
        raise HandshakeError("it does not hold the key of this trial")
    connection.settimeout(None)


def welcome(
    connection: socket.socket, place: Known, awaited: Sequence[tuple[str, Peer]]
) -> tuple[str, Peer]:
    """The acceptor's side; which of the awaited connections it is."""
    deadline = time.monotonic() + HANDSHAKE_S
    ours = secrets.token_bytes(NONCE)
    connection.settimeout(HANDSHAKE_S)
    connection.sendall(MAGIC + ours)
    start = _read(connection, len(MAGIC) + NONCE + 2, deadline)
    length = int.from_bytes(start[-2:], "little")
    if not start.startswith(MAGIC) or length > HELLO_BYTES:
        raise HandshakeError("no peer")
    hello, proof = _read(connection, length, deadline), _read(connection, MAC, deadline)
    signed = ours + start[len(MAGIC) : -2] + hello
    if not hmac.compare_digest(proof, _mac(place, b"connect", signed)):
        raise HandshakeError("wrong key")
    kind, role, index, *to = json.loads(hello)
    for key in awaited:
        if (kind, role, index) == (key[0], key[1].role, key[1].index):
            if to != [place.me.role, place.me.index]:
                break
            connection.sendall(_mac(place, b"accept", signed))
            return key
    raise HandshakeError("not awaited here")


def _mac(place: Known, label: bytes, signed: bytes) -> bytes:
    return hmac.digest(place.key, label + b"\0" + signed, "sha256")


def _read(
    connection: socket.socket, count: int, deadline: float, closed: str = "it closed"
) -> bytes:
    """Exactly that many bytes before the deadline, however slowly they trickle."""
    found = b""
    while len(found) < count:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        more = connection.recv(count - len(found))
        if not more:
            raise HandshakeError(closed)
        found += more
    return found
