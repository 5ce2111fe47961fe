"""Disks, network cards and GPUs of a host, as flat keys of its fingerprint.

Only /sys and /proc are read. Folders are arguments so that tests can bring their own.
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

from .facts import read_text

NET = Path("/sys/class/net")
BLOCK = Path("/sys/block")
NVIDIA = Path("/proc/driver/nvidia")
# Commands of the ethtool ioctl that each read one offload.
SIOCETHTOOL = 0x8946
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
        found[f"disk.{path.name}.model"] = read_text(path / "device/model")
        found[f"disk.{path.name}.rotational"] = rotates == "1" if rotates else None
        found[f"disk.{path.name}.scheduler"] = chosen(read_text(path / "queue/scheduler"))
    return found


def nics(folder: Path = NET) -> dict[str, Any]:
    """Network cards and bridges with names that last.

    Containers' ends and Docker's `br-ID` come and go. A bridge has the speed and
    the offloads of what is plugged in at the moment, so these two are left out.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*")):
        card, bridge = (path / "device").exists(), (path / "bridge").exists()
        if not (card or bridge) or re.fullmatch(r"veth.*|br-[0-9a-f]{12}", path.name):
            continue
        mtu, speed = read_text(path / "mtu"), read_text(path / "speed")
        found[f"nic.{path.name}.mtu"] = int(mtu) if mtu.isdigit() else None
        if card:
            found[f"nic.{path.name}.offloads"] = offloads(path.name)
            found[f"nic.{path.name}.driver"] = driver_of(path)
            found[f"nic.{path.name}.speed"] = int(speed) * 10**6 if speed.isdigit() else None
    return found


def driver_of(path: Path) -> str:
    """Name of the driver of a device in /sys."""
    with contextlib.suppress(OSError):
        return (path / "device/driver").readlink().name
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
