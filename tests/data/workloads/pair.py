"""A client and a server, for tests: they know each other by the key, over TCP, and the client
sends datagrams that the server counts, and writes down in its scratch space."""

import hashlib
import hmac
import os
import socket
import time
from dataclasses import dataclass, field

from workloads import _options
from workloads._declare import CLIENT_AND_SERVER, Metric, Port
from workloads._output import Context, FailureError
from workloads._peers import Peers

COMMON = ("datagrams",)
ITEMS = None
METRICS = (
    Metric("rate", "Rate", "datagrams/s", "higher", headline=True),
    Metric("received", "Received", "datagrams", "higher", role="server"),
    Metric("said", "Said by both", "1", combine="total"),
)
TOPOLOGY = CLIENT_AND_SERVER
PORTS = (Port("control", "tcp", ("server",)), Port("data", "udp", ("server",)))
FAMILY = "python"
WRITABLE = True
MEMORY = 2**26
SIZE = 64  # bytes of a datagram
WRITTEN = 2**20  # bytes that each member writes


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `pair`."""

    datagrams: int = field(default=20, metadata={"help": "sent", "unit": "datagrams"})


def estimate(_options: Options, _cores: float) -> float:
    """Seconds."""
    return 1.0


def run(options: Options, context: Context) -> None:
    """The part of this member."""
    peers = context.peers
    assert peers is not None and context.scratch is not None
    (context.scratch / "written").write_bytes(os.urandom(WRITTEN))
    context.scalar("said", 1)
    if peers.me.role == "server":
        context.scalar("received", _serve(peers, options.datagrams))
    else:
        context.scalar("rate", _ask(peers, options.datagrams))


def _proof(peers: Peers) -> bytes:
    return hmac.new(peers.key, b"client", hashlib.sha256).digest()


def _serve(peers: Peers, expected: int) -> int:
    """Datagrams that arrived: the client sends each again until it is answered."""
    with (
        socket.create_server(("", peers.me.ports["control"])) as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        data.bind(("", peers.me.ports["data"]))
        for each in (control, data):
            each.settimeout(peers.find_s)
        link, _ = control.accept()
        with link:
            link.settimeout(peers.silent_s)
            if not hmac.compare_digest(link.recv(32, socket.MSG_WAITALL), _proof(peers)):
                raise FailureError("it does not know the key of the trial")
            link.sendall(b"welcome")
            seen: set[bytes] = set()
            while len(seen) < expected:
                datagram, sender = data.recvfrom(SIZE)
                seen.add(datagram)
                data.sendto(datagram, sender)
            link.recv(1)  # until the client has had all answers
            return len(seen)


def _ask(peers: Peers, count: int) -> float:
    (server,) = peers.of("server")
    with _connected(peers) as link, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data:
        link.sendall(_proof(peers))
        if link.recv(7, socket.MSG_WAITALL) != b"welcome":
            raise FailureError("it was not let in")
        data.connect(server.address("data"))
        data.settimeout(0.2)
        begin = time.monotonic()
        for number in range(count):
            _answered(data, f"{number:{SIZE}}".encode())
        return count / (time.monotonic() - begin)


def _connected(peers: Peers) -> socket.socket:
    """As soon as the server is there."""
    (server,) = peers.of("server")
    until = time.monotonic() + peers.find_s
    while True:
        try:
            return socket.create_connection(server.address("control"), timeout=peers.silent_s)
        except OSError as error:
            if time.monotonic() > until:
                raise FailureError(f"the server was not found: {error}") from error
            time.sleep(0.05)


def _answered(data: socket.socket, datagram: bytes) -> None:
    while True:
        data.send(datagram)
        try:
            if data.recv(SIZE) == datagram:
                return
        except (TimeoutError, ConnectionError):
            continue
