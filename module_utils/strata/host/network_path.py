"""Proof that traffic takes the path that was asked for: read from the running system and seen.

An end is where a trial's program would stand: the host itself, or the network namespace of a
container. From it each peer is looked at: the route to it, the largest packet that goes there
whole, an answer over TCP, and the device that is to carry all of it: what it counts, and that it
has these very packets. What configuration says counts for nothing.

A network's role uses it from its `prove`, by including the role `network_proof`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import secrets
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..errors import Refused
from ..members import FIRST_PORT
from .facts import PROGRAMS

T = TypeVar("T")

CLONE_NEWNET = 0x40000000  # linux/sched.h
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2  # linux/in.h; Python's socket names them from 3.13 on
ETH_P_ALL = 3  # linux/if_ether.h
SO_ATTACH_FILTER = 26  # asm-generic/socket.h
# linux/filter.h: of a packet a byte, its header's length, and four bytes at a place behind that.
LOAD_BYTE, LOAD_HEADER, LOAD_BEHIND, EQUAL, TAKE = 0x30, 0xB1, 0x40, 0x15, 0x06
ICMP_ECHO, ICMP_REPLY = 8, 0
HEADERS = 28  # bytes of IPv4 and ICMP before what an echo carries
MARK = 4  # bytes by which what is sent to one peer is known
PACKETS = 20  # what is sent to each peer while the device's counters are looked at
IN_A_ROW = 3  # answers by which a path is taken to be there
# A network that has just been made may take this long until it knows all of its ends.
PATIENCE_S = 20.0
ANSWER_S = 1.0
REFUSED = (errno.ECONNREFUSED, 0)  # nobody listens, or somebody does: both come from the peer


@dataclass(frozen=True)
class End:
    """Where a program stands, and what is to carry its packets to its peers."""

    address: str
    mtu: int  # bytes of the largest IPv4 packet, as the program sends it
    route: str  # the device of its own that its routes to its peers must name
    kind: str  # of the carrying device: vxlan, macvlan, tun, wireguard, …
    namespace: str = ""  # path of its network namespace; '' for the host's own
    device: str = ""  # the carrying device, where it is another than `route`
    device_namespace: str | None = None  # where that is; None for the end's own namespace

    @property
    def carrier(self) -> tuple[str, str]:
        """Namespace and name of the device whose counters must move."""
        own = self.namespace if self.device_namespace is None else self.device_namespace
        return own, self.device or self.route


def prove(end: End, peers: dict[str, str]) -> list[str]:
    """Prove the path from an end to its peers (name: IPv4 address); a line for each that holds.

    Raises Refused with both values where the running system does otherwise than was asked, and
    where there is no peer: what nothing was sent over is not proven.
    """
    if not peers:
        raise Refused(
            "a path is proven by what is sent to another end of the network",
            given=f"{end.address} alone",
            then="measure the network on two hosts that have the runtime, or leave it out",
        )
    said = [_prove_devices(end)]
    for name, address in peers.items():
        _prove_route(end, name, address)
        within(end.namespace, partial(_prove_sizes, end, address))
        within(end.namespace, partial(_prove_tcp, end, address))
        moved = _prove_carried(end, address)
        said.append(f"{name} at {address}: MTU {end.mtu}, all of it whole, {moved}")
    return said


def _prove_devices(end: End) -> str:
    namespace, device = end.carrier
    found = link(namespace, device)
    kind = found.get("linkinfo", {}).get("info_kind", "none")
    if kind != end.kind:
        raise _other(f"device {device} of the kind {end.kind}", f"of the kind {kind}")
    return f"{device} is {kind}"


def _prove_route(end: End, name: str, peer: str) -> None:
    found = route(end.namespace, peer)
    device = found.get("dev", "no route")
    if device != end.route:
        via = f" via {found['gateway']}" if "gateway" in found else ""
        raise _other(f"packets to {name} ({peer}) leave by {end.route}", f"by {device}{via}")
    # A route may say less than its device: Cilium's pods have that of the host's device.
    said = [one["mtu"] for one in found.get("metrics", []) if "mtu" in one]
    mtu = said[0] if said else link(end.namespace, device).get("mtu")
    if mtu != end.mtu:
        raise _other(f"MTU {end.mtu} of {end.route}", f"MTU {mtu}")


def _prove_sizes(end: End, peer: str) -> None:
    """The exact MTU goes through whole, and one byte more does not."""
    deadline = time.monotonic() + PATIENCE_S
    # One may get through in pieces, before the path is known to be narrower.
    while not all(_echo(peer, end.mtu) for _ in range(IN_A_ROW)):
        if time.monotonic() > deadline:
            small = _echo(peer, HEADERS + 8)
            what = "small packets are answered" if small else "no packet is answered"
            raise _other(f"{peer} answers packets of {end.mtu} bytes, sent whole", what)
    if _echo(peer, end.mtu + 1):
        raise _other(f"MTU {end.mtu} to {peer}", f"{end.mtu + 1} bytes go through whole")


def _prove_tcp(end: End, peer: str) -> None:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as one:
        one.settimeout(PATIENCE_S / 4)
        try:
            code = one.connect_ex((peer, FIRST_PORT))
        except OSError as error:
            code = error.errno or errno.EIO
    if code not in REFUSED:
        raise _other(f"{peer} answers {end.address} over TCP, port {FIRST_PORT}", os.strerror(code))


def _prove_carried(end: End, peer: str) -> str:
    """What is sent goes out by the device and comes back by it: it counts, and is seen there.

    Others may send meanwhile, which the device counts as well; so the packets have a mark.
    """
    namespace, device = end.carrier
    before, mark = counters(namespace, device), secrets.token_bytes(MARK)
    with _at_device(namespace, device, mark) as heard:
        answered = within(end.namespace, partial(_send, peer, end.mtu, mark))
        seen = _heard(heard)
    counted = (n - b for n, b in zip(counters(namespace, device), before, strict=True))
    out, back = map(min, counted, seen)
    if answered == 0 or out < PACKETS * end.mtu or back < answered * end.mtu:
        raise _other(
            f"{device} carries {PACKETS * end.mtu} bytes to {peer} and {PACKETS * end.mtu} back",
            f"it counted {out} and {back} bytes",
        )
    return f"{out} bytes out and {back} back over {device}"


def _send(peer: str, size: int, mark: bytes) -> int:
    """How many of the packets are answered."""
    return sum(_echo(peer, size, mark + n.to_bytes(4, "big")) for n in range(PACKETS))


@contextlib.contextmanager
def _at_device(namespace: str, device: str, mark: bytes) -> Iterator[socket.socket]:
    """What a device sends and receives of the packets with that mark, from the header of IP on."""
    word = int.from_bytes(mark, "big")
    # Of the kernel's filter: jumps count instructions, of which the last takes nothing (bpf(4)).
    steps = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            *((LOAD_BYTE, 0, 0, 9), (EQUAL, 0, 4, socket.IPPROTO_ICMP)),
            *((LOAD_HEADER, 0, 0, 0), (LOAD_BEHIND, 0, 0, 8), (EQUAL, 0, 1, word)),
            *((TAKE, 0, 0, 2**17), (TAKE, 0, 0, 0)),
        )
    )
    held = ctypes.create_string_buffer(steps)
    program = struct.pack("HP", len(steps) // 8, ctypes.addressof(held))
    with contextlib.closing(
        within(namespace, partial(socket.socket, socket.AF_PACKET, socket.SOCK_DGRAM, 0))
    ) as one:
        one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        one.bind((device, ETH_P_ALL))
        yield one


def _heard(one: socket.socket) -> tuple[int, int]:
    """Bytes of the packets that were sent and received."""
    out = back = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            packet, (_, _, way, *_) = one.recvfrom(2**17, socket.MSG_DONTWAIT)
            out += len(packet) * (way == socket.PACKET_OUTGOING)
            back += len(packet) * (way != socket.PACKET_OUTGOING)
    return out, back


def _other(asked: str, running: str) -> Refused:
    return Refused(
        "what is asked for is what carries the packets",
        given=f"asked: {asked}; running: {running}",
        then="look for what another network has left behind (ip route, ip link; docs/networks.md)",
    )


def link(namespace: str, device: str) -> dict[str, Any]:
    """What `ip -details link` says of a device; {} where there is none."""
    return _ip(namespace, "-details", "link", "show", "dev", device)


def route(namespace: str, peer: str) -> dict[str, Any]:
    """The route that a packet to that address takes; {} where there is none."""
    return _ip(namespace, "route", "get", peer)


def address(namespace: str, device: str) -> str:
    """The first IPv4 address of a device; '' where it has none."""
    found = _ip(namespace, "-4", "address", "show", "dev", device).get("addr_info", [])
    return found[0]["local"] if found else ""


def counters(namespace: str, device: str) -> tuple[int, int]:
    """Bytes that a device has sent and received. Raises Refused where there is no device."""
    found = _ip(namespace, "-statistics", "link", "show", "dev", device).get("stats64")
    if found is None:
        raise _other(f"device {device}", "there is none")
    return found["tx"]["bytes"], found["rx"]["bytes"]


def _ip(namespace: str, *arguments: str) -> dict[str, Any]:
    enter = ["nsenter", f"--net={namespace}"] if namespace else []
    path = shutil.which("ip", path=PROGRAMS) or "ip"
    done = subprocess.run(
        [*enter, path, "-json", *arguments], capture_output=True, text=True, check=False
    )
    found = [one for one in json.loads(done.stdout or "[]") if one]
    return found[0] if found and done.returncode == 0 else {}


def within(namespace: str, act: Callable[[], T]) -> T:
    """Do something in a network namespace; in a thread of its own, which is all that moves."""
    if not namespace:
        return act()

    def moved() -> T:
        with Path(namespace).open() as file:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), namespace)
        return act()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(moved).result()


def _echo(peer: str, size: int, mark: bytes = b"") -> bool:
    """Whether an IPv4 packet of `size` bytes that must not be cut is answered."""
    with _icmp() as one:
        mark = mark or secrets.token_bytes(8)
        packet = _message(mark + bytes(size - HEADERS - len(mark)))
        try:
            one.sendto(packet, (peer, 0))
        except OSError as error:
            if error.errno in (errno.EMSGSIZE, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPERM):
                time.sleep(ANSWER_S / 10)
                return False
            raise
        return _answered(one, mark)


@contextlib.contextmanager
def _icmp() -> Iterator[socket.socket]:
    with contextlib.closing(
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    ) as one:
        one.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        yield one


def _answered(one: socket.socket, mark: bytes) -> bool:
    deadline = time.monotonic() + ANSWER_S
    while (left := deadline - time.monotonic()) > 0:
        if select.select([one], [], [], left)[0]:
            packet = one.recv(2**17)
            message = packet[(packet[0] & 15) * 4 :]
            if message[0] == ICMP_REPLY and message[8:16] == mark:
                return True
    return False


def _message(data: bytes) -> bytes:
    """An ICMP echo request (RFC 792) that carries the data."""
    head = struct.pack("!BBHHH", ICMP_ECHO, 0, 0, os.getpid() & 0xFFFF, 1)
    return struct.pack("!BBH", ICMP_ECHO, 0, _checksum(head + data)) + head[4:] + data


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
