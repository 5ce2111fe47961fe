"""Bare metal on its way, without Ironic: which step follows which state, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from openstack import exceptions
from strata.errors import Refused
from strata.providers.guest import drive
from strata.providers.openstack import free, metal
from strata.providers.openstack.found import TAG

NODE = {
    "driver": "redfish",
    "driver_info": {"redfish_address": "http://bmc1", "redfish_password": "right"},
    "properties": {"cpus": 1, "memory_mb": 2048, "capabilities": "boot_mode:bios"},
}
MACHINE = metal.Machine(
    "metal1", "strata-lab-metal1", "bm", NODE, address="10.0.0.7/24", gateway="10.0.0.1"
)
IMAGES = {"kernel": "id1", "ramdisk": "id2", "disk": "id3"}
START = metal.Start(IMAGES, "quiet", "ssh me", "secret", "ssh-ed25519 K")
MAC = "52:54:00:00:00:01"
# What a node comes to that does as it is asked.
GOES = {
    "manage": "manageable",
    "inspect": "manageable",
    "clean": "manageable",
    "provide": "available",
    "active": "active",
    "deleted": "available",
    "abort": "clean failed",
}


class Ironic:
    """Nodes and allocations that go from state to state as Ironic's do, one step at a request."""

    def __init__(self, **fails: str) -> None:
        self.node: Any = None
        self.allocation: Any = None
        self.said: list[str] = []
        self.fails = fails
        self.drive: dict[str, Any] = {}
        self.cards = [MAC]

    def find_node(self, name: str) -> Any:
        return self.node if self.node and name in (self.node.name, self.node.id) else None

    def get_allocation(self, name: str) -> Any:
        if not self.allocation or self.allocation.name != name:
            raise exceptions.NotFoundException
        return self.allocation

    def create_node(self, **given: Any) -> None:
        self.said.append("enrol")
        self.node = node("enroll", **given)

    def create_allocation(self, **given: Any) -> None:
        self.said.append("allocate")
        why = self.fails.get("allocate")
        self.allocation = SimpleNamespace(
            **{"id": "a1", "node_id": None if why else "n1", "last_error": why, **given},
            state="error" if why else "active",
        )
        if self.node and not why:
            self.node.instance_id = "a1"

    def delete_allocation(self, _: Any) -> None:
        self.allocation = None

    def delete_node(self, _: Any) -> None:
        self.said.append("delete")
        self.node = None

    def update_node(self, _: Any, **given: Any) -> None:
        vars(self.node).update(given)

    def ports(self, **_: Any) -> list[Any]:
        return [SimpleNamespace(address=address) for address in self.cards]

    def create_port(self, node_id: str, address: str) -> None:
        assert node_id == self.node.id
        self.cards.append(address)

    def set_node_power_state(self, _: Any, state: str) -> None:
        self.said.append(state)
        self.node.power_state = state

    def set_node_provision_state(self, _: Any, verb: str, **more: Any) -> None:
        self.said.append(verb)
        self.drive = more.get("config_drive", self.drive)
        failed = self.fails.get(verb)
        self.node.provision_state = metal.FAILED[verb] if failed else GOES[verb]
        self.node.last_error = failed
        if verb == "inspect" and not failed:
            self.node.properties |= {"cpus": "1", "memory_mb": "2048", "cpu_arch": "x86_64"}
        if verb == "deleted" and not failed:
            self.allocation = None


def node(state: str, **given: Any) -> SimpleNamespace:
    known = {"id": "n1", "name": MACHINE.name, "properties": {}, "extra": {}, "last_error": None}
    free_of = {"is_maintenance": False, "maintenance_reason": None, "instance_id": None}
    power = {"power_state": "power on", "resource_class": "bm", "boot_interface": metal.MEDIA}
    power |= {"inspect_interface": "redfish", "deploy_interface": "ramdisk"}
    return SimpleNamespace(**{**known, **free_of, **power, **given, "provision_state": state})


def way(ironic: Ironic, machine: metal.Machine = MACHINE) -> metal.Way:
    return metal.Way(SimpleNamespace(baremetal=ironic), machine, "lab")


def bring(
    ironic: Ironic, machine: metal.Machine = MACHINE, key: str = START.host_public
) -> metal.Way:
    going = way(ironic, machine)
    metal.bring([going], {"metal1": START}, lambda _: key, 2)
    return going


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metal, "LOOK_S", 0)


def test_a_node_goes_from_its_bmc_to_a_host_and_a_second_time_nothing_is_asked() -> None:
    ironic = Ironic()
    assert bring(ironic).allocation.id == "a1"
    steps = ["enrol", "manage", "inspect", "provide", "allocate", "active"]
    assert ironic.said == steps
    assert ironic.node.extra == {TAG: "lab"} and ironic.node.properties["capabilities"]
    assert ironic.node.instance_info == {
        **{"deploy_interface": "ramdisk", "kernel": "id1", "ramdisk": "id2"},
        "ramdisk_kernel_arguments": "quiet",
    }
    assert not bring(ironic).changed and ironic.said == steps


def test_a_disk_is_written_whatever_the_bmc_can_insert_and_bears_what_the_host_is_told() -> None:
    ironic = Ironic()
    found = {"cpus": "1", "memory_mb": "2048"}
    ironic.node = node("available", properties=found, boot_interface="ipxe")
    bring(ironic, metal.Machine(**{**vars(MACHINE), "deploy": "direct"}))
    assert ironic.node.instance_info == {"deploy_interface": "direct", "image_source": "id3"}
    assert ironic.drive["meta_data"]["name"] == "metal1"


def test_what_nobody_can_inspect_has_the_cards_that_the_inventory_says() -> None:
    ironic = Ironic()
    ironic.cards = []
    blind = {**NODE, "inspect_interface": metal.BLIND, "ports": [MAC.upper(), MAC]}
    bring(ironic, metal.Machine(**{**vars(MACHINE), "node": blind}))
    assert ironic.said == ["enrol", "manage", "provide", "allocate", "active"]
    assert ironic.cards == [MAC] and "ports" not in vars(ironic.node)
    assert "cpus" not in ironic.node.properties, "that nobody has seen"

    ironic = Ironic()
    ironic.cards = []
    with pytest.raises(Refused, match="inspection finds it, or the inventory says it"):
        bring(ironic, metal.Machine(**{**vars(MACHINE), "node": {**blind, "ports": []}}))


def test_a_host_is_told_its_address_its_key_and_who_may_log_in() -> None:
    ironic = Ironic()
    bring(ironic)
    told = ironic.drive
    assert told["meta_data"] == {"name": "metal1", "public_keys": {"strata": "ssh me"}}
    assert '"ed25519_private": "secret"' in told["user_data"]
    (network,) = told["network_data"]["networks"]
    assert (network["ip_address"], network["netmask"]) == ("10.0.0.7", "255.255.255.0")
    assert network["routes"][0]["gateway"] == "10.0.0.1"
    assert not drive.network("10.0.0.7/24", "", "52:54:00:00:00:01")["networks"][0]["routes"]


def test_a_node_is_erased_where_that_is_asked() -> None:
    ironic = Ironic()
    bring(ironic, metal.Machine(**{**vars(MACHINE), "clean": "full"}))
    assert ironic.said[2:5] == ["inspect", "clean", "provide"]
    # Ironic gives an agent to no node that runs from its memory.
    assert ironic.node.deploy_interface == "direct"
    assert ironic.node.instance_info["deploy_interface"] == "ramdisk"

    ironic = Ironic()
    ironic.node = node("manageable", properties={"cpus": "1", "memory_mb": "2048"})
    bring(ironic, metal.Machine(**{**vars(MACHINE), "clean": "full"}))
    assert ironic.node.deploy_interface == "direct", "it was enrolled when nothing was to be erased"


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        ("manageable", ["inspect", "provide", "allocate", "active"]),
        ("inspect failed", ["inspect", "provide", "allocate", "active"]),
        ("clean failed", ["manage", "inspect", "provide", "allocate", "active"]),
        ("deploy failed", ["allocate", "active"]),
        ("error", ["deleted", "allocate", "active"]),
    ],
)
def test_whoever_comes_after_one_that_was_killed_goes_on(state: str, steps: list[str]) -> None:
    ironic = Ironic()
    found = {"cpus": "1", "memory_mb": "2048"}
    ironic.node = node(state, properties=found, last_error="of somebody else's attempt")
    bring(ironic)
    # What is told to a node that was told something wrong: the password is no other than now.
    assert ironic.said == steps and ironic.node.driver_info == NODE["driver_info"]


def test_one_that_is_off_is_switched_on() -> None:
    ironic = Ironic()
    bring(ironic)
    ironic.node.power_state = "power off"
    bring(ironic)
    assert ironic.said[-1] == "power on"


@pytest.mark.parametrize(
    ("verb", "said", "rule"),
    [
        ("manage", "Unable to connect to http://bmc1", "reaches the BMC"),
        # Ironic 21.4 of a node that starts over its network, and of one with virtual media.
        ("clean", "Failed to prepare node n1 for cleaning: 'deploy_kernel'", "by a deploy ramdisk"),
        ("clean", "Unable to find kernel, ramdisk for building ISO, or", "by a deploy ramdisk"),
        ("manage", "AccessError: HTTP GET returned code 401", "accepts the name and password"),
        ("active", "Timeout reached while waiting for callback", "within the time"),
        ("allocate", "no available nodes match the resource class bm", "in no use"),
        ("inspect", "", "makes what it is asked"),
    ],
)
def test_what_fails_is_told_with_its_cause(verb: str, said: str, rule: str) -> None:
    with pytest.raises(Refused, match="metal1: ") as refused:
        bring(Ironic(**{verb: said or "x"}), metal.Machine(**{**vars(MACHINE), "clean": "full"}))
    assert rule in refused.value.rule


def test_a_node_in_maintenance_is_not_used() -> None:
    ironic = Ironic()
    ironic.node = node("available", is_maintenance=True, maintenance_reason="a fan")
    with pytest.raises(Refused, match="in maintenance: a fan"):
        bring(ironic)


def test_a_node_that_has_lost_memory_is_refused() -> None:
    ironic = Ironic()
    ironic.node = node("available", properties={"cpus": "1", "memory_mb": "1024"})
    with pytest.raises(Refused, match="memory_mb 1024, not 2048"):
        bring(ironic)


@pytest.mark.parametrize(("found", "said"), [("4096", 4864), ("2048", "2048"), ("2048", 2048)])
def test_a_bmc_tells_memory_in_whole_gib(found: str, said: object) -> None:
    given = replace(MACHINE, node={"properties": {"memory_mb": said}})
    metal.check_found(given, {"memory_mb": found})


@pytest.mark.parametrize("found", ["3072", "5120", None])
def test_less_or_more_memory_by_a_gib_is_another(found: str | None) -> None:
    given = replace(MACHINE, node={"properties": {"memory_mb": 4864}})
    with pytest.raises(Refused, match=f"memory_mb {found}, not 4864"):
        metal.check_found(given, {"memory_mb": found})


def test_a_node_whose_bmc_inserts_no_media_is_refused() -> None:
    ironic = Ironic()
    found = {"cpus": "1", "memory_mb": "2048"}
    ironic.node = node("available", properties=found, boot_interface="ipxe")
    with pytest.raises(Refused, match="has the boot interface ipxe"):
        bring(ironic)


def test_a_node_that_somebody_else_uses_is_refused() -> None:
    ironic = Ironic()
    ironic.node = node("active", instance_id="theirs")
    with pytest.raises(Refused, match="somebody else uses it"):
        bring(ironic)


@pytest.mark.parametrize(
    ("key", "words"), [("", r"\n"), ("other", ", and 10.0.0.7 answers with another host key")]
)
def test_a_host_that_does_not_answer_with_its_key_is_given_up(key: str, words: str) -> None:
    ironic = Ironic()
    bring(ironic)
    with pytest.raises(Refused, match=f"metal1: active, power on after 0 s{words}"):
        metal.bring([way(ironic)], {"metal1": START}, lambda _: key, 0)


def test_what_was_enrolled_is_forgotten_and_what_was_there_is_given_back() -> None:
    ironic = Ironic()
    bring(ironic)
    metal.take([way(ironic)], 2)
    assert ironic.said[-2:] == ["deleted", "delete"] and ironic.node is None

    # In the middle of being erased, which nobody waits for.
    ironic.node = node("clean wait", name=MACHINE.name)
    metal.take([way(ironic)], 2)
    assert ironic.said[-3:] == ["abort", "manage", "delete"] and ironic.node is None

    ironic.node = node("available", name="rack7")
    there = metal.Machine(**{**vars(MACHINE), "node": {}})
    bring(ironic, there)
    metal.take([way(ironic, there)], 2)
    assert ironic.node.provision_state == "available" and ironic.allocation is None


def cloud(*nodes: SimpleNamespace) -> SimpleNamespace:
    ironic = SimpleNamespace(
        drivers=lambda: [SimpleNamespace(name="redfish")],
        get_driver=lambda name: SimpleNamespace(name=name, enabled_deploy_interfaces=["ramdisk"]),
        nodes=lambda **_: nodes,
        allocations=lambda: [],
    )
    return SimpleNamespace(has_service=lambda _: True, baremetal=ironic)


def test_an_offer_says_what_the_inventory_says() -> None:
    assert free.offers(cloud(), [MACHINE]) == {
        "metal1": {
            "what": {"node": "strata-lab-metal1"},
            "cpu_ids": [0],
            "memory_total": 2048 * 2**20,
        }
    }


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"address": ""}, "openstack_address: nothing"),
        ({"address": "10.0.0.7"}, "bare metal is given its address"),
        ({"node": {"driver": "redfish"}}, "is enrolled with the driver"),
        ({"node": {**NODE, "driver": "redfisch"}}, "did you mean 'redfish'"),
        ({"node": {**NODE, "properties": {"memory_mb": "4 GiB"}}}, "metal1: memory_mb: 4 GiB"),
        ({"node": {**NODE, "properties": "4 GiB"}}, "metal1: 4 GiB"),
        ({"node": {**NODE, "driver_info": {}}}, "is enrolled with the driver"),
        ({"clean": "some"}, "known: off, metadata, full"),
        ({"deploy": "some"}, "known: ramdisk, direct"),
        ({"deploy": "direct"}, "openstack_deploy: direct, openstack_clean: off; redfish has ram"),
        ({"clean": "metadata"}, "to be erased it needs direct"),
        ({"node": {}}, "1 of 'bm'; of its nodes are 1 in maintenance, 1 in use, 1 manageable"),
    ],
)
def test_what_cannot_be_had_is_refused(wrong: dict[str, Any], words: str) -> None:
    nodes = (
        node("available", is_maintenance=True),
        node("active", instance_id="theirs"),
        node("manageable"),
        node("available", resource_class="other"),
    )
    machine = metal.Machine(**{**vars(MACHINE), **wrong})
    with pytest.raises(Refused) as refused:
        free.offers(cloud(*nodes), [machine])
    assert words in str(refused.value)


def test_a_cloud_without_bare_metal_offers_none() -> None:
    with pytest.raises(Refused, match="a cloud that gives bare metal has Ironic"):
        free.offers(SimpleNamespace(has_service=lambda _: False), [MACHINE])
