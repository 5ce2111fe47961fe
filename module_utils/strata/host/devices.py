"""Disks, network cards, GPUs and the PCI bus of a host, as flat keys of its fingerprint.

Only /sys and /proc are read. Folders are arguments so that tests can bring their own.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import re
import socket
import struct
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from .facts import read_text

NET = Path("/sys/class/net")
BLOCK = Path("/sys/block")
PCI = Path("/sys/bus/pci/devices")
NVIDIA = Path("/proc/driver/nvidia")
SIOCGIFCONF = 0x8912
BRIDGES = "0x06"  # class of bridges: how the bus is wired, not what is on it
# QEMU's subsystem, in what it imitates as well as in its own devices, which are of these vendors.
QEMU = ("0x1af4", "0x1100")
QEMU_VENDORS = ("1af4", "1b36", "1234")
IFREQ = 40  # bytes of struct ifreq on 64-bit machines
MOST_ADDRESSES = 1024
SIOCETHTOOL = 0x8946
DRVINFO = 196  # bytes of struct ethtool_drvinfo
# Commands of the ethtool ioctl: who drives it, the lengths of the rings, and those that each read
# one offload.
DRIVER = 0x03
RINGS = 0x10
OFFLOADS = {
    "rx-checksum": 0x14,
    "tx-checksum": 0x16,
    "scatter-gather": 0x18,
    "tso": 0x1E,
    "gso": 0x23,
    "gro": 0x2B,
}


def chosen(text: str) -> str:
    """The word in brackets: `always [madvise] never`."""
    found = re.search(r"\[([^]]+)\]", text)
    return found[1] if found else text.strip()


def disks(folder: Path = BLOCK) -> dict[str, Any]:
    """Disks with hardware behind them, real or virtual; no loops, no memory."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*")):
        if not (path / "device").exists():
            continue
        rotates = read_text(path / "queue/rotational")
        found[f"disk.{path.name}.bus"] = _target(path / "device/subsystem")
        found[f"disk.{path.name}.model"] = read_text(path / "device/model")
        found[f"disk.{path.name}.rotational"] = rotates == "1" if rotates else None
        found[f"disk.{path.name}.scheduler"] = chosen(read_text(path / "queue/scheduler"))
    return found


def pci(folder: Path = PCI) -> dict[str, str]:
    """Vendor and product of each PCI device by its address: `10de:2330`."""

    def of(path: Path, name: str) -> str:
        return read_text(path / name).removeprefix("0x")

    return {path.name: f"{of(path, 'vendor')}:{of(path, 'device')}" for path in folder.glob("*")}


def bus(folder: Path = PCI) -> dict[str, Any]:
    """How many PCI devices of each kind there are, passed through ones among them, and which of
    these kinds QEMU only imitates."""
    kinds = {
        address: kind
        for address, kind in pci(folder).items()
        if not read_text(folder / address / "class").startswith(BRIDGES)
    }
    imitated = {
        kind
        for address, kind in kinds.items()
        if not kind.startswith(QEMU_VENDORS) and _subsystem(folder / address) == QEMU
    }
    counts = dict(sorted(Counter(kinds.values()).items()))
    return {"pci.devices": counts, "pci.simulated": sorted(imitated)}


def _subsystem(path: Path) -> tuple[str, str]:
    return read_text(path / "subsystem_vendor"), read_text(path / "subsystem_device")


def nics(folder: Path = NET, used: Collection[str] = ()) -> dict[str, Any]:
    """Network cards and bridges with names that last, and those devices that are `used`.

    Containers' ends and Docker's `br-ID` come and go. A bridge has the speed and
    the offloads of what is plugged in at the moment, so these two are left out.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*")):
        card, bridge = (path / "device").exists(), (path / "bridge").exists()
        lasts = (card or bridge) and not re.fullmatch(r"veth.*|br-[0-9a-f]{12}", path.name)
        if not lasts and path.name not in used:
            continue
        mtu, speed = read_text(path / "mtu"), read_text(path / "speed")
        found[f"nic.{path.name}.mtu"] = int(mtu) if mtu.isdigit() else None
        if not bridge:
            found[f"nic.{path.name}.offloads"] = offloads(path.name)
            found[f"nic.{path.name}.queues"] = queues(path)
            found[f"nic.{path.name}.rings"] = rings(path.name)
        if card:
            found[f"nic.{path.name}.driver"] = driver_of(path)
            found[f"nic.{path.name}.speed"] = int(speed) * 10**6 if speed.isdigit() else None
    return found


def driver_of(path: Path) -> str:
    """Name of the driver of a device in /sys."""
    return _target(path / "device/driver")


def _target(link: Path) -> str:
    with contextlib.suppress(OSError):
        return link.readlink().name
    return ""


def offloads(name: str) -> list[str] | None:
    """What the network card does in the CPU's stead; None when it cannot be asked."""
    on = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for offload, command in OFFLOADS.items():
            value = array.array("I", [command, 0])
            request = struct.pack("16sP16x", name.encode(), value.buffer_info()[0])
            try:
                fcntl.ioctl(asked, SIOCETHTOOL, request)
            except OSError:
                continue
            if value[1]:
                on.append(offload)
    return on or None


def queues(path: Path) -> dict[str, int]:
    """How many queues a device in /sys has for each direction, and how many packets may wait."""
    found = {way: len(list(path.glob(f"queues/{way}-*"))) for way in ("rx", "tx")}
    length = read_text(path / "tx_queue_len")
    return found | ({"length": int(length)} if length.isdigit() else {})


def rings(name: str) -> dict[str, int] | None:
    """Packets that wait in the network card itself, received and to be sent; None without any."""
    value = array.array("I", [RINGS, *[0] * 8])  # struct ethtool_ringparam: what may be, what is
    request = struct.pack("16sP16x", name.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            fcntl.ioctl(asked, SIOCETHTOOL, request)
        except OSError:
            return None
    return {"rx": value[5], "tx": value[8]}


def firmware(name: str) -> str:
    """The version of a network card's firmware; '' where it says none."""
    value = array.array("B", bytearray(DRVINFO))
    value[0] = DRIVER
    request = struct.pack("16sP16x", name.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            fcntl.ioctl(asked, SIOCETHTOOL, request)
        except OSError:
            return ""
    # struct ethtool_drvinfo: the command, then driver, version and firmware's version of 32 bytes.
    return value.tobytes()[68:100].split(b"\0")[0].decode(errors="replace").strip()


def towards(others: Collection[str]) -> set[str]:
    """The devices over which this host sends to these IPv4 addresses; those of its own are none."""
    here, found = addresses(), set[str]()
    for other in set(others) - set(here):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                # Connecting a datagram socket looks the route up and sends nothing.
                probe.connect((other, 9))
            except OSError:
                continue
            own = probe.getsockname()[0]
        found |= {here[own]} if own in here else set()
    return found - {"lo"}


def addresses() -> dict[str, str]:
    """The device of each IPv4 address of this host."""
    room = array.array("B", bytes(IFREQ * MOST_ADDRESSES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("iL", len(room), room.buffer_info()[0])
        (length,) = struct.unpack("i", fcntl.ioctl(asked, SIOCGIFCONF, request)[:4])
    found, data = {}, room.tobytes()
    for at in range(0, length, IFREQ):
        # An address that has a label shows it after the device's name and a colon.
        name = data[at : at + 16].split(b"\0")[0].decode().split(":")[0]
        found[socket.inet_ntoa(data[at + 20 : at + 24])] = name
    return found


def gpus(folder: Path = NVIDIA) -> dict[str, Any]:
    """NVIDIA's cards in the order of the bus."""
    pattern = r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)"
    version = re.search(pattern, read_text(folder / "version"))
    found: dict[str, Any] = {}
    for number, path in enumerate(sorted(folder.glob("gpus/*/information"))):
        name = re.search(r"^Model:\s*(.+)", read_text(path), re.MULTILINE)
        found[f"gpu.{number}.model"] = name[1].strip() if name else ""
        found[f"gpu.{number}.driver"] = version[1] if version else ""
    return found
