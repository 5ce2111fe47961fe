"""The provider libvirt without a libvirt: definitions, what a host is read to have, refusals."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from strata.errors import Refused
from strata.providers.libvirt import begun, domain, offer, seen
from strata.providers.libvirt.domain import Asked, Domain, Place

GPU = "0000:3b:00.0"
PLACE = Place("lab", "/srv/lab", "kvm", "default", "network")
PLAIN = Asked(1, 1024, 8)
FULL = Asked(2, 2048, 8, (2, 3), GPU, "10.0.0.7/24", "10.0.0.1")
SEEN = seen.Seen(
    frozenset({"kvm", "tcg"}),
    frozenset(range(4)),
    8192,
    {
        "default": seen.Network("network", True, True),
        "off": seen.Network("network", False, True),
        "br0": seen.Network("bridge"),
    },
    (),
    {
        GPU: seen.Device("10de:2330"),
        "0000:00:01.0": seen.Device("8086:1234", bridge=True),
        "0000:3c:00.0": seen.Device("10de:2331", group=False),
        "0000:3d:00.0": seen.Device("10de:2332", beside=("0000:3d:00.1",)),
    },
)
# As libvirt 9.0 tells of a machine of Debian 12 with what it adds itself, shortened.
OTHER = """<domain type='kvm' id='1'>
  <name>other</name>
  <memory unit='KiB'>1048576</memory>
  <vcpu placement='static' current='2'>4</vcpu>
  <cputune><vcpupin vcpu='0' cpuset='0-3,^1'/><vcpupin vcpu='1' cpuset='7'/></cputune>
  <devices>
    <hostdev mode='subsystem' type='usb' managed='yes'>
      <source><vendor id='0x1'/><product id='0x2'/></source>
    </hostdev>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <driver name='vfio'/>
      <source><address domain='0x0000' bus='0x3b' slot='0x00' function='0x0'/></source>
      <address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/>
    </hostdev>
  </devices>
</domain>"""
CAPABILITIES = """<capabilities>
  <host><topology><cells num='2'>
    <cell id='0'><cpus num='2'><cpu id='0' socket_id='0'/><cpu id='1' socket_id='0'/></cpus></cell>
    <cell id='1'><cpus num='1'><cpu id='8' socket_id='1'/></cpus></cell>
  </cells></topology></host>
  <guest><os_type>hvm</os_type>
    <arch name='i686'><domain type='qemu'/><domain type='kvm'/></arch></guest>
  <guest><os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/></arch></guest>
</capabilities>"""


def made(place: Place = PLACE, asked: Asked = PLAIN, **more: Any) -> Domain:
    return replace(domain.read(domain.definition(place, "vm1", asked), running=True), **more)


def offered(asked: dict[str, Asked], *domains: Domain, place: Place = PLACE) -> offer.Offer:
    return offer.Offer(replace(SEEN, domains=domains), place, asked)


def test_a_definition_says_what_is_asked() -> None:
    root = ET.fromstring(domain.definition(PLACE, "vm1", FULL))  # noqa: S314 - our own
    assert root.get("type") == "kvm" and root.find("cpu").get("mode") == "host-passthrough"
    assert root.findtext("name") == "strata-lab-vm1"
    assert (root.find("memory").get("unit"), root.findtext("memory")) == ("MiB", "2048")
    assert root.findtext("vcpu") == "2"
    assert [pin.attrib for pin in root.iterfind("cputune/vcpupin")] == [
        {"vcpu": "0", "cpuset": "2"},
        {"vcpu": "1", "cpuset": "3"},
    ]
    (passed,) = root.iterfind("devices/hostdev")
    assert passed.attrib == {"mode": "subsystem", "type": "pci", "managed": "yes"}
    assert passed.find("source/address").attrib == {
        **{"domain": "0x0000", "bus": "0x3b", "slot": "0x00", "function": "0x0"}
    }
    disks = [disk.find("source").get("file") for disk in root.iterfind("devices/disk")]
    assert disks == ["/srv/lab/vm1.qcow2", "/srv/lab/vm1.iso"]
    assert root.find("devices/interface/source").attrib == {"network": "default"}


def test_a_definition_says_nothing_that_is_not_asked() -> None:
    place = replace(PLACE, accelerator="tcg", network="br0", link="bridge")
    root = ET.fromstring(domain.definition(place, "vm1", PLAIN))  # noqa: S314 - our own
    assert root.get("type") == "qemu" and root.find("cpu").get("mode") == "maximum"
    assert root.find("cputune") is None and root.find("devices/hostdev") is None
    card = root.find("devices/interface")
    assert card.get("type") == "bridge" and card.find("source").attrib == {"bridge": "br0"}


def test_a_card_has_the_same_address_whenever_its_host_is_made() -> None:
    macs = {domain.mac(testbed, host) for testbed in ("a", "b") for host in ("vm1", "vm2")}
    assert len(macs) == 4 and domain.mac("a", "vm1") in macs
    assert all(mac.startswith("52:54:00:") and len(mac) == 17 for mac in macs)


def test_what_was_made_is_known_again() -> None:
    there = made(asked=FULL)
    assert (there.testbed, there.host, there.is_of("lab")) == ("lab", "vm1", True)
    assert (there.vcpus, there.cpus, there.devices) == (2, {2, 3}, {GPU})
    assert there.asked == domain.noted(PLACE, FULL)
    assert replace(there, name="renamed").is_of("lab")
    assert not made().is_of("la")


def test_a_machine_of_somebody_else_is_read_too() -> None:
    there = domain.read(OTHER, running=True)
    assert (there.name, there.vcpus, there.testbed) == ("other", 4, "")
    assert there.cpus == {0, 2, 3, 7} and there.devices == {GPU}


def test_capabilities_are_those_of_the_architecture() -> None:
    assert seen.capabilities(CAPABILITIES) == ({"tcg"}, {0, 1, 8})
    assert seen.available("MemTotal: 9 kB\nMemAvailable:    2097152 kB\n") == 2048


@pytest.mark.parametrize(
    ("given", "has", "chosen"),
    [("", {"kvm", "tcg"}, "kvm"), ("", {"tcg"}, "tcg"), ("tcg", {"kvm", "tcg"}, "tcg")],
)
def test_kvm_is_taken_where_libvirt_has_it(given: str, has: set[str], chosen: str) -> None:
    assert offer.choose(given, has) == chosen


@pytest.mark.parametrize(("given", "has"), [("kvm", {"tcg"}), ("", set())])
def test_an_accelerator_that_is_not_there_is_refused(given: str, has: set[str]) -> None:
    with pytest.raises(Refused, match="can run machines of x86_64"):
        offer.choose(given, has)


def test_what_the_host_has_can_be_had() -> None:
    offered({"vm1": replace(PLAIN, cpus=(0,)), "vm2": FULL}).check()
    offered({"vm1": FULL}, made(asked=FULL)).check()
    # What runs has its memory already, and what is off has no CPU.
    large = replace(PLAIN, memory=9000)
    offered({"vm1": large}, made(asked=large)).check()
    offered({"vm1": FULL}, replace(domain.read(OTHER, running=False), devices=frozenset())).check()


BUSY = replace(domain.read(OTHER, running=True), vcpus=1)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: offered({"vm1": replace(PLAIN, vcpus=5)}), "5 asked and 0 of other"),
        (lambda: offered({"vm1": replace(PLAIN, vcpus=4)}, BUSY), "4 asked and 1 of other"),
        (lambda: offered({"vm1": replace(PLAIN, memory=8000)}), "8000 MiB asked and 512"),
        (lambda: offered({"vm1": replace(PLAIN, cpus=(4,))}), r"has no \[4\]"),
        (lambda: offered({"vm1": replace(PLAIN, vcpus=2, cpus=(1,))}), r"\[1\]; 2 virtual ones"),
        (lambda: offered({"vm1": replace(PLAIN, vcpus=2, cpus=(1, 1))}), r"\[1, 1\]; 2 virtual"),
        (lambda: offered(dict.fromkeys(("vm1", "vm2"), replace(PLAIN, cpus=(1,)))),
         "vm2: libvirt_cpus has 1, which vm1 has"),
        (lambda: offered({"vm1": replace(PLAIN, cpus=(3,))}, BUSY), "has 3, which other has"),
        (lambda: offered({"vm1": replace(PLAIN, device="3b:00.0")}), "which is not there"),
        (lambda: offered({"vm1": replace(PLAIN, device="0000:00:01.0")}), "leads to other"),
        (lambda: offered({"vm1": replace(PLAIN, device="0000:3c:00.0")}), "IOMMU .* is off"),
        (lambda: offered({"vm1": replace(PLAIN, device="0000:3d:00.0")}), "uses 0000:3d:00.1"),
        (lambda: offered({"vm1": replace(PLAIN, device=GPU)}, BUSY), "which other has"),
        (lambda: offered(dict.fromkeys(("vm1", "vm2"), replace(PLAIN, device=GPU))),
         f"vm2: {GPU}, which vm1 has"),
        (lambda: offered({"vm1": PLAIN}, place=replace(PLACE, network="defalt")),
         "did you mean 'default'"),
        (lambda: offered({"vm1": PLAIN}, place=replace(PLACE, network="off")), "not active"),
        (lambda: offered({"vm1": PLAIN}, place=replace(PLACE, network="br0")),
         "has no DHCP of libvirt's"),
        (lambda: offered({"vm1": replace(PLAIN, address="10.0.0.7")}), "an address has its"),
        (lambda: offered({"vm1": FULL}, made()), r"vcpus 2, it has 1; .*memory 2048"),
        (lambda: offered({"vm1": PLAIN}, made(testbed="", asked=PLAIN)), "was not made by Strata"),
        (lambda: offered({"vm1": PLAIN}, made(), place=replace(PLACE, accelerator="tcg")),
         "accelerator 'tcg', it has 'kvm'"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused(check: Callable[[], offer.Offer], words: str) -> None:
    wanted = check()
    with pytest.raises(Refused, match=words):
        wanted.check()


def test_pci_devices_are_those_that_the_kernel_shows(tmp_path: Path) -> None:
    bus, driver = tmp_path / "pci", tmp_path / "snd_hda_intel"
    driver.mkdir()
    for address, ids, kind in (
        ("0000:00:01.0", ("8086", "1901"), "0x060400"),
        ("0000:3b:00.0", ("10de", "2330"), "0x030200"),
        ("0000:3b:00.1", ("10de", "22c8"), "0x040300"),
        ("0000:3c:00.0", ("15b3", "1017"), "0x020000"),
    ):
        folder = bus / address
        folder.mkdir(parents=True)
        for name, value in zip(("vendor", "device", "class"), (*ids, kind), strict=True):
            (folder / name).write_text(value if name == "class" else f"0x{value}\n")
    group = tmp_path / "groups/7/devices"
    group.mkdir(parents=True)
    for address in ("0000:00:01.0", "0000:3b:00.0", "0000:3b:00.1"):
        (group / address).symlink_to(bus / address)
        (bus / address / "iommu_group").symlink_to(group.parent)
    (bus / "0000:3b:00.1/driver").symlink_to(driver)
    assert seen.pci(bus) == {
        "0000:00:01.0": seen.Device("8086:1901", bridge=True, beside=("0000:3b:00.1",)),
        "0000:3b:00.0": seen.Device("10de:2330", beside=("0000:3b:00.1",)),
        "0000:3b:00.1": seen.Device("10de:22c8"),
        "0000:3c:00.0": seen.Device("15b3:1017", group=False),
    }


class Connection:
    """A libvirt with one machine, and what its network has leased."""

    def __init__(self, state: int, *leases: tuple[str, str, int]) -> None:
        self.state, self.leases = state, leases

    def listAllDomains(self) -> list[Any]:  # noqa: N802 - libvirt's name
        return [
            SimpleNamespace(
                name=lambda: "strata-lab-vm1",
                state=lambda: [self.state, 1],
                UUIDString=lambda: "id1",
            )
        ]

    def networkLookupByName(self, _: str) -> Any:  # noqa: N802 - libvirt's name
        found = [
            {"mac": mac, "ipaddr": at, "expirytime": until, "type": begun.IPV4}
            for mac, at, until in self.leases
        ]
        return SimpleNamespace(DHCPLeases=lambda: found)


def test_the_newest_lease_of_its_card_is_where_a_machine_answers() -> None:
    mac = domain.mac("lab", "vm1")
    leases = ((mac, "10.0.0.9", 20), (mac, "10.0.0.8", 10), ("52:54:00:00:00:00", "10.0.0.7", 30))
    machine = begun.Machine("id1", "10.0.0.9")
    asked = {"vm1": PLAIN, "vm2": PLAIN}
    assert begun.look(Connection(begun.RUNNING, *leases), PLACE, asked) == {"vm1": machine}
    assert begun.look(Connection(begun.RUNNING), PLACE, asked) == {}
    told = {"vm1": replace(PLAIN, address="10.0.0.5/24")}
    found = begun.look(Connection(begun.RUNNING), PLACE, told)
    assert found == {"vm1": begun.Machine("id1", "10.0.0.5")}


@pytest.mark.parametrize("state", [begun.PAUSED, begun.OFF, begun.CRASHED])
def test_a_machine_that_ends_while_it_begins_is_told_with_its_console(
    tmp_path: Path, state: int
) -> None:
    place = replace(PLACE, folder=str(tmp_path))
    (tmp_path / "vm1.log").write_text("Booting\n\nKernel panic\n")
    with pytest.raises(Refused, match="Booting / Kernel panic") as refused:
        begun.look(Connection(state), place, {"vm1": PLAIN})
    assert "libvirt_accelerator: tcg" in refused.value.then


def test_a_machine_that_asks_for_no_address_is_given_up(tmp_path: Path) -> None:
    place = replace(PLACE, folder=str(tmp_path))
    with pytest.raises(Refused, match="vm2: none after 0 s; its console says nothing"):
        begun.wait(lambda: {"vm1": begun.Machine("id1", "at")}, place, ["vm1", "vm2"], 0)
