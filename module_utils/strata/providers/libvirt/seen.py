"""What a libvirt host has and can. Read from libvirt, /sys and /proc; folders are arguments."""

from __future__ import annotations

import contextlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...host import devices
from ...host.facts import read_text
from . import api, domain
from .domain import Domain

BRIDGE = "0x06"  # the class of a PCI device that leads to others


@dataclass(frozen=True)
class Network:
    """One of libvirt's, or else a bridge of the host, of whose addresses libvirt knows nothing."""

    link: str
    active: bool = True
    tells_addresses: bool = False


@dataclass(frozen=True)
class Device:
    """A PCI device: `ids` are vendor and product, `beside` those of its group that a driver has."""

    ids: str
    bridge: bool = False
    group: bool = True
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """The host. `memory` is what is left of it, in MiB."""

    accelerators: frozenset[str]
    cpus: frozenset[int]
    memory: int
    networks: Mapping[str, Network]
    domains: tuple[Domain, ...]
    devices: Mapping[str, Device]


def look(connection: Any) -> Seen:
    """Ask libvirt, and look at its host."""
    offered, cpus = capabilities(connection.getCapabilities())
    return Seen(
        offered,
        cpus,
        available(Path("/proc/meminfo").read_text()),
        {**bridges(), **{one.name(): network(one) for one in connection.listAllNetworks()}},
        tuple(domains(connection)),
        pci(),
    )


def capabilities(xml: str) -> tuple[frozenset[str], frozenset[int]]:
    """By what machines can be run, and the CPUs of the host."""
    root = ET.fromstring(xml)  # noqa: S314 - libvirt's own
    found = root.iterfind("guest/arch[@name='x86_64']/domain")
    types = {one.get("type") for one in found}
    cpus = {int(cpu.get("id", "0")) for cpu in root.iterfind("host/topology//cpu")}
    return frozenset(key for key, kind in domain.TYPES.items() if kind in types), frozenset(cpus)


def available(meminfo: str) -> int:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def network(there: Any) -> Network:
    root = ET.fromstring(there.XMLDesc(0))  # noqa: S314 - libvirt's own
    return Network("network", bool(there.isActive()), root.find("ip/dhcp/range") is not None)


def bridges(folder: Path = devices.NET) -> dict[str, Network]:
    return {path.parent.name: Network("bridge") for path in folder.glob("*/bridge")}


def domains(connection: Any) -> list[Domain]:
    """All that are there, running or not; none that goes meanwhile."""
    found = []
    for one in connection.listAllDomains():
        with api.gone():
            found.append(domain.read(one.XMLDesc(0), running=bool(one.isActive())))
    return found


def pci(folder: Path = devices.PCI) -> dict[str, Device]:
    """PCI devices by address."""
    ids = devices.pci(folder)
    return {address: _device(folder, address, ids) for address in ids}


def _device(folder: Path, address: str, ids: Mapping[str, str]) -> Device:
    group = folder / address / "iommu_group"
    members = [path.name for path in group.glob("devices/*") if path.name != address]
    beside = [
        other
        for other in sorted(members)
        if not _bridge(folder, other) and _driver(folder / other) not in ("", "vfio-pci")
    ]
    return Device(ids[address], _bridge(folder, address), group.exists(), tuple(beside))


def _bridge(folder: Path, address: str) -> bool:
    return read_text(folder / address / "class").startswith(BRIDGE)


def _driver(path: Path) -> str:
    with contextlib.suppress(OSError):
        return (path / "driver").readlink().name
    return ""
