"""What a virtual machine of a testbed is, as libvirt is told it and as it says it. Pure."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...identity import digest

PREFIX = "strata-"
# Of our entry in a domain's metadata.
SPACE = "urn:strata:testbed"
TAG = f"{{{SPACE}}}machine"
# What interprets the instructions of a machine, by libvirt's name of the type of a domain.
TYPES = {"kvm": "kvm", "tcg": "qemu"}


def name(testbed: str, host: str = "") -> str:
    """Of what is made for the testbed."""
    return f"{PREFIX}{testbed}-{host}" if host else f"{PREFIX}{testbed}"


@dataclass(frozen=True)
class Asked:
    """What a host is to be: memory in MiB, disk in GB, `cpus` of the libvirt host for its own, one
    for each, and the address of the PCI device that is passed through.
    """

    vcpus: int
    memory: int
    disk: int
    cpus: tuple[int, ...] = ()
    device: str = ""
    address: str = ""
    gateway: str = ""


@dataclass(frozen=True)
class Place:
    """Where machines are made: `link` is the kind of their network, `network` or `bridge`."""

    testbed: str
    folder: str
    accelerator: str
    network: str
    link: str


@dataclass(frozen=True)
class Domain:
    """One that is there. `testbed`, `host` and `asked` are what Strata noted, if it made it."""

    name: str
    running: bool
    vcpus: int
    cpus: frozenset[int] = frozenset()
    devices: frozenset[str] = frozenset()
    testbed: str = ""
    host: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)

    def is_of(self, testbed: str) -> bool:
        return self.testbed == testbed or self.name.startswith(f"{name(testbed)}-")


def mac(testbed: str, host: str) -> str:
    """The same for a host whenever it is made."""
    number = digest([testbed, host])
    return ":".join(["52:54:00", *(number[at : at + 2] for at in (0, 2, 4))])


def noted(place: Place, asked: Asked) -> dict[str, Any]:
    """What stays in the metadata, against which a machine that is there is compared."""
    shared = {"accelerator": place.accelerator, "network": place.network}
    return {**vars(asked), "cpus": list(asked.cpus), **shared}


def definition(place: Place, host: str, asked: Asked) -> str:
    """The XML of its domain."""
    root = ET.Element("domain", type=TYPES[place.accelerator])
    _add(root, "name", name(place.testbed, host))
    note = json.dumps(noted(place, asked), sort_keys=True)
    whose = {"xmlns:strata": SPACE, "testbed": place.testbed, "host": host}
    _add(_add(root, "metadata"), "strata:machine", note, **whose)
    _add(root, "memory", asked.memory, unit="MiB")
    _add(root, "vcpu", asked.vcpus, placement="static")
    if asked.cpus:
        tuned = _add(root, "cputune")
        for number, cpu in enumerate(asked.cpus):
            _add(tuned, "vcpupin", vcpu=number, cpuset=cpu)
        _add(tuned, "emulatorpin", cpuset=",".join(map(str, asked.cpus)))
    _add(_add(root, "os"), "type", "hvm", arch="x86_64", machine="q35")
    features = _add(root, "features")
    _add(features, "acpi")
    _add(features, "apic")
    # All that the CPU has, or all that the interpreter knows.
    _add(root, "cpu", mode={"kvm": "host-passthrough", "tcg": "maximum"}[place.accelerator])
    _add(root, "on_crash", "destroy")
    _devices(_add(root, "devices"), place, host, asked)
    return ET.tostring(root, encoding="unicode")


def _devices(devices: ET.Element, place: Place, host: str, asked: Asked) -> None:
    disk = _disk(devices, f"{place.folder}/{host}.qcow2", "qcow2", "vda")
    _add(disk, "boot", order=1)
    _add(_disk(devices, f"{place.folder}/{host}.iso", "raw", "vdb"), "readonly")
    card = _add(devices, "interface", type=place.link)
    _add(card, "mac", address=mac(place.testbed, host))
    _add(card, "source", **{place.link: place.network})
    _add(card, "model", type="virtio")
    _add(_add(devices, "rng", model="virtio"), "backend", "/dev/urandom", model="random")
    _add(devices, "memballoon", model="none")
    _add(_add(devices, "serial", type="pty"), "log", file=f"{place.folder}/{host}.log")
    if asked.device:
        passed = _add(devices, "hostdev", mode="subsystem", type="pci", managed="yes")
        domain, bus, slot, function = asked.device.replace(".", ":").split(":")
        where = {"domain": domain, "bus": bus, "slot": slot, "function": function}
        at = {part: f"0x{digits}" for part, digits in where.items()}
        _add(_add(passed, "source"), "address", **at)


def _disk(devices: ET.Element, path: str, form: str, target: str) -> ET.Element:
    disk = _add(devices, "disk", type="file", device="disk")
    _add(disk, "driver", name="qemu", type=form)
    _add(disk, "source", file=path)
    _add(disk, "target", dev=target, bus="virtio")
    return disk


def _add(parent: ET.Element, tag: str, text: Any = None, **attributes: Any) -> ET.Element:
    made = ET.SubElement(parent, tag, {key: str(value) for key, value in attributes.items()})
    made.text = None if text is None else str(text)
    return made


def read(xml: str, *, running: bool) -> Domain:
    """A domain that is there, whoever has made it."""
    root = ET.fromstring(xml)  # noqa: S314 - libvirt's own
    note = root.find(f"metadata/{TAG}")
    said = {} if note is None else {"testbed": note.get("testbed"), "host": note.get("host")}
    asked = {} if note is None else json.loads(note.text or "{}")
    pins = [pin.get("cpuset", "") for pin in root.iterfind("cputune/vcpupin")]
    passed = root.iterfind("devices/hostdev[@type='pci']/source/address")
    return Domain(
        root.findtext("name", ""),
        running,
        int(root.findtext("vcpu", "0")),
        frozenset().union(*map(numbers, pins)),
        frozenset(map(_at, passed)),
        asked=asked,
        **{key: value or "" for key, value in said.items()},
    )


def _at(address: ET.Element) -> str:
    """As Linux writes it: 0000:3b:00.0."""
    domain, bus, slot, function = (
        int(address.get(part, "0"), 16) for part in ("domain", "bus", "slot", "function")
    )
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def numbers(text: str) -> frozenset[int]:
    """Those that a list of CPUs means: `0-3,^2,8`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.removeprefix("^").partition("-")
        meant = set(range(int(first), int(last or first) + 1))
        found = found - meant if part.startswith("^") else found | meant
    return frozenset(found)
