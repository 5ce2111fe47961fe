"""How the packets of a connection leave: the device, and what of it and of TCP bears on speed.

Read from inside, so that it is the container's own device where there is one. Whatever a kernel
does not tell is left out.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import re
import socket
import struct
from pathlib import Path
from typing import Any

NET = Path("/sys/class/net")
SIOCGIFCONF = 0x8912
SIOCETHTOOL = 0x8946
IP_MTU = 14
# Commands of the ethtool ioctl that each read one offload.
OFFLOADS = {
    "rx-checksum": 0x14,
    "tx-checksum": 0x16,
    "scatter-gather": 0x18,
    "tso": 0x1E,
    "gso": 0x23,
    "gro": 0x2B,
}
IFREQ = 40  # bytes of struct ifreq on 64-bit machines
MOST_ADDRESSES = 1024


def of(connection: socket.socket) -> dict[str, Any]:
    """Of a connected TCP socket: both addresses, device, sizes in bytes, offloads, queues,
    congestion control."""
    own, other = connection.getsockname()[0], connection.getpeername()[0]
    device = "lo" if own == other else addresses().get(own, "")
    found: dict[str, Any] = {"own": own, "peer": other, "device": device, **_tcp(connection)}
    if device:
        found |= {"mtu": _number(NET / device / "mtu"), "offloads": offloads(device)}
        found["queues"] = queues(NET / device)
    return {name: value for name, value in found.items() if value not in (None, "", {})}


def _tcp(connection: socket.socket) -> dict[str, Any]:
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return {
        "path_mtu": connection.getsockopt(socket.IPPROTO_IP, IP_MTU),
        "segment": connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG),
        "congestion_control": name.rstrip(b"\0").decode(),
    }


def addresses() -> dict[str, str]:
    """The device of each IPv4 address that is configured here."""
    room = array.array("B", bytes(IFREQ * MOST_ADDRESSES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("iL", len(room), room.buffer_info()[0])
        (length,) = struct.unpack("i", fcntl.ioctl(asked, SIOCGIFCONF, request)[:4])
    found, data = {}, room.tobytes()
    for at in range(0, length, IFREQ):
        # A name may have a suffix after a colon, of an address that has a label.
        name = data[at : at + 16].split(b"\0")[0].decode().split(":")[0]
        found[socket.inet_ntoa(data[at + 20 : at + 24])] = name
    return found


def offloads(device: str) -> list[str] | None:
    """What the device does in the CPU's stead, by name; None where it cannot be asked."""
    on, asked_any = [], False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for offload, command in OFFLOADS.items():
            value = array.array("I", [command, 0])
            request = struct.pack("16sP16x", device.encode(), value.buffer_info()[0])
            with contextlib.suppress(OSError):
                fcntl.ioctl(asked, SIOCETHTOOL, request)
                asked_any = True
                if value[1]:
                    on.append(offload)
    return on if asked_any else None


def queues(folder: Path) -> dict[str, int]:
    """How many queues a device has for each direction, and how many packets may wait to be sent."""
    names = [path.name for path in folder.glob("queues/*")]
    found = {
        kind: count
        for kind in ("rx", "tx")
        if (count := sum(bool(re.fullmatch(rf"{kind}-\d+", name)) for name in names))
    }
    length = _number(folder / "tx_queue_len")
    return found if length is None else {**found, "length": length}


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
