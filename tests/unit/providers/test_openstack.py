"""The provider openstack without a cloud: quotas, words of a cloud, consoles, names."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openstack import exceptions
from strata.errors import Refused
from strata.providers.guest import keys
from strata.providers.openstack import faults, found, guests, offer, servers

LIMITS = {
    **{"instances": 10, "instances_used": 8},
    **{"total_cores": -1, "total_cores_used": 90},
    **{"total_ram": 4096, "total_ram_used": 1024},
}
# As a guest of Debian 12 under Nova 26 wrote it, between words of its kernel.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH0Vt3hWm3VvC0rM1s0mX0c9m9b1d6M1u0Q2F5l5yq1k"
ASKED = guests.Asked({"vm1": "id1"}, "lan", {"vm1": "2 of gpu"})
CONSOLE = f"""[    9.1] virtio_net
{guests.BEGIN}\r
[    9.2] random: crng init done
{KEY} \r
{guests.END}\r
debian login: """


@pytest.mark.parametrize(("count", "memory"), [(2, 1024), (1, 3072)])
def test_what_the_quota_leaves_can_be_had(count: int, memory: int) -> None:
    offer.check_quota(LIMITS, count * [offer.Size(8, memory, 8)])


@pytest.mark.parametrize(
    ("count", "memory", "words"),
    [(3, 512, "instances: 3 more, 8 of 10"), (2, 2048, "total_ram: 4096 more, 1024 of 4096")],
)
def test_more_than_the_quota_is_refused(count: int, memory: int, words: str) -> None:
    with pytest.raises(Refused, match="within the project's quota") as refused:
        offer.check_quota(LIMITS, count * [offer.Size(1, memory, 8)])
    assert words in str(refused.value)


def test_a_name_that_the_cloud_does_not_know_is_refused_with_the_nearest() -> None:
    offer.check_named("network", "guests", ["guests"], "openstack_network")
    with pytest.raises(Refused, match="did you mean 'guests'"):
        offer.check_named("network", "gests", ["guests", "lan"], "openstack_network")


def test_all_servers_are_asked_for_whatever_the_cloud_says_to_one() -> None:
    asked = {}

    def create_server(**given: Any) -> SimpleNamespace:
        asked[given["name"]] = given
        if given["flavor_id"] == "id of none":
            raise exceptions.BadRequestException("PCI alias gpu is not defined")
        return SimpleNamespace(id=f"id of {given['name']}")

    def find(name: str, ignore_missing: bool) -> SimpleNamespace:
        assert not ignore_missing
        return SimpleNamespace(id=f"id of {name}")

    cloud = SimpleNamespace(
        compute=SimpleNamespace(create_server=create_server, find_flavor=find),
        image=SimpleNamespace(find_image=find),
        network=SimpleNamespace(find_network=find),
    )
    wanted = {
        "vm1": servers.Wanted("small", "disk", {"reservation": "r1"}, "#cloud-config"),
        "vm2": servers.Wanted("none", "disk"),
        "vm3": servers.Wanted("small", "other"),
    }
    made, refused = servers.ask(cloud, servers.Same("lab", "lan", ["ssh"]), wanted)
    assert made == {"vm1": "id of strata-lab-vm1", "vm3": "id of strata-lab-vm3"}
    assert refused.keys() == {"vm2"} and "PCI alias gpu" in refused["vm2"]
    first, last = asked["strata-lab-vm1"], asked["strata-lab-vm3"]
    own = {name: first.pop(name) for name in ("user_data", "scheduler_hints")}
    assert base64.b64decode(own["user_data"]) == b"#cloud-config"
    assert own["scheduler_hints"] == {"reservation": "r1"}
    assert (first.pop("image_id"), last.pop("image_id")) == ("id of disk", "id of other")
    assert first == {
        **last,
        "name": "strata-lab-vm1",
        "metadata": {"strata_testbed": "lab", "strata_host": "vm1"},
    }
    assert last["security_groups"] == [{"name": "ssh"}]
    assert last["networks"] == [{"uuid": "id of lan"}] and last["key_name"] == "strata-lab"


def test_security_groups_are_there_and_the_network_takes_them() -> None:
    there = SimpleNamespace(security_groups=lambda: [SimpleNamespace(name="default")])
    cloud = SimpleNamespace(network=there)
    offer.check_groups(cloud, [], "lan", filters=False)
    offer.check_groups(cloud, ["default"], "lan", filters=True)
    with pytest.raises(Refused, match="did you mean 'default'"):
        offer.check_groups(cloud, ["defualt"], "lan", filters=True)
    with pytest.raises(Refused, match="lan has port security switched off"):
        offer.check_groups(cloud, ["default"], "lan", filters=False)


@pytest.mark.parametrize("given", [{"product_id": 250000.0}, {"alais": "h100"}, {"vendor_id": ""}])
def test_a_device_that_is_not_described_is_refused(given: dict[str, object]) -> None:
    device = {"alias": "h100", "vendor_id": "10de", "product_id": "2330"}
    for known in ({}, device, {**device, "count": 2}):
        offer.check_device("vm1", known)
    with pytest.raises(Refused, match="known by the cloud's alias"):
        offer.check_device("vm1", {**device, **given})


def test_a_server_that_is_there_and_is_another_one_is_refused() -> None:
    flavor = SimpleNamespace(
        vcpus=1, ram=768, disk=8, extra_specs={"hw:numa_nodes": "1"}, original_name="mine"
    )
    offer.check_same("vm1", flavor, "", offer.Size(1, 768, 8), {"hw:numa_nodes": 1})
    offer.check_same("vm1", flavor, "mine", offer.Size(9, 9, 9), {})
    with pytest.raises(Refused, match=r"vm1: asked 1, 1024, 8, .*; it has 1, 768, 8, .*numa"):
        offer.check_same("vm1", flavor, "", offer.Size(1, 1024, 8), {})
    with pytest.raises(Refused, match="asked theirs; it has mine"):
        offer.check_same("vm1", flavor, "theirs", offer.Size(1, 768, 8), {})


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ("No valid host was found. There are not enough hosts available.", "a filter of the"),
        ("No valid host was found. ", "Placement knows a host"),
        ("BadRequestException: 400: Client Error for url: http://127.0.0.1:8774/v2.1/servers, "
         "PCI alias h100 is not defined", "PCI alias"),
        ("ForbiddenException: 403: Client Error for url: http://127.0.0.1:8774/v2.1/servers, "
         "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances", "quota"),
        ("Flavor's disk is too small for requested image.", "as large as the image"),
        # Ironic 21.1 of an allocation, and of nodes whose BMC was off, or had another password.
        ("Failed to process allocation 5f: no available nodes match the resource class bm.",
         "in no use"),
        ("Failed to get power state for node 7a. Error: Redfish exception occurred. Error: Unable "
         "to connect to http://127.0.0.1:8000/redfish/v1/. Error: ('Connection aborted.', "
         "ConnectionRefusedError(111, 'Connection refused'))", "reaches the BMC of the node"),
        ("metal1 in maintenance: a fan", "not in maintenance"),
        ("Deploy step deploy.write_image failed on node 54. Failed to create config drive on disk "
         "/dev/vda for node 54. Error: Unexpected error while running command. Stderr: \"Error: "
         "Can't have overlapping partitions.\"", "larger than the image"),
        ("something else", "what it is asked"),
    ],
)  # fmt: skip
def test_what_a_cloud_says_has_a_rule_and_a_next_step(said: str, rule: str) -> None:
    refused = faults.refused("vm1", said)
    assert rule in refused.rule and refused.given.startswith("vm1: ") and refused.then


def test_a_host_key_is_what_the_guest_told_last() -> None:
    assert guests.host_key(CONSOLE) == KEY
    old = CONSOLE.replace(KEY, KEY.replace("H0Vt", "AAAA"))
    assert guests.host_key(old + CONSOLE) == KEY
    assert guests.host_key(CONSOLE.partition(guests.END)[0]) == "", "it has not told all of it yet"
    assert guests.host_key("") == ""


def test_a_floating_address_is_the_one_that_is_reached() -> None:
    fixed = {"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"}
    floating = {"addr": "203.0.113.9", "version": 4, "OS-EXT-IPS:type": "floating"}
    sixth = {"addr": "fd00::5", "version": 6, "OS-EXT-IPS:type": "fixed"}
    assert guests.address({"lan": [sixth, fixed, floating]}, "lan") == "203.0.113.9"
    assert guests.address({"lan": [sixth, fixed]}, "lan") == "10.0.0.5"
    assert guests.address({"lan": [sixth, fixed]}, "lan", floating=True) == ""
    assert guests.address({"lan": [fixed, floating]}, "lan", floating=True) == "203.0.113.9"
    assert guests.address({"lan": [sixth]}, "lan") == guests.address({}, "lan") == ""


class Compute:
    """What a cloud answers, a list for each server; the last answer is given for ever."""

    def __init__(self, answers: dict[str, list[SimpleNamespace]]) -> None:
        self.answers, self.asked = answers, list[str]()

    def get_server(self, server: str) -> SimpleNamespace:
        left = self.answers[server]
        return left.pop(0) if len(left) > 1 else left[0]

    def get_server_console_output(self, server: str) -> dict[str, str]:
        self.asked.append(server)
        return {"output": CONSOLE}


def server(status: str, **more: object) -> SimpleNamespace:
    at = {"lan": [{"addr": "10.0.0.5", "version": 4}]} if status == "ACTIVE" else {}
    return SimpleNamespace(status=status, addresses=at, fault=more.get("fault"))


def test_a_key_that_is_pinned_is_learnt_of_no_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "LOOK_S", 0)
    pinned = tmp_path / "known_hosts"
    compute = Compute({"id1": [server("BUILD"), server("ACTIVE")]})
    cloud = SimpleNamespace(compute=compute)
    one = guests.wait(cloud, ASKED, pinned, 60)
    assert one == {"vm1": keys.Guest("id1", "10.0.0.5", KEY)} and compute.asked == ["id1"]
    assert keys.write(pinned, one.values()) and not keys.write(pinned, one.values())
    assert guests.wait(cloud, ASKED, pinned, 60) == one
    assert compute.asked == ["id1"]


def test_a_key_that_was_given_is_asked_for_nowhere(tmp_path: Path) -> None:
    compute = Compute({"id1": [server("ACTIVE")]})
    asked = dataclasses.replace(ASKED, host_keys={"vm1": "ssh-ed25519 given"})
    one = guests.wait(SimpleNamespace(compute=compute), asked, tmp_path / "none", 60)
    assert one["vm1"].key == "ssh-ed25519 given" and not compute.asked
    compute.answers = {"id1": [server("BUILD")]}
    with pytest.raises(Refused, match="vm1: not after 0 s"):
        guests.wait(SimpleNamespace(compute=compute), asked, tmp_path / "none", 0)
    assert not compute.asked


def test_a_fault_ends_the_waiting(tmp_path: Path) -> None:
    said = "No valid host was found. There are not enough hosts available."
    cloud = SimpleNamespace(compute=Compute({"id1": [server("ERROR", fault={"message": said})]}))
    with pytest.raises(Refused, match="it asks 2 of gpu, so that is most likely PciPassthrough"):
        guests.wait(cloud, ASKED, tmp_path / "none", 60)


def test_a_fault_that_is_written_after_the_status_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "LOOK_S", 0)
    told = server("ERROR", fault={"message": "PCI alias gpu is not defined"})
    cloud = SimpleNamespace(compute=Compute({"id1": [server("ERROR"), told]}))
    with pytest.raises(Refused, match="the cloud has a PCI alias"):
        guests.wait(cloud, ASKED, tmp_path / "none", 60)


@pytest.mark.parametrize("error", [exceptions.NotFoundException, exceptions.ConflictException])
def test_a_guest_without_a_console_has_not_told_anything_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    compute = Compute({"id1": [server("ACTIVE")]})

    def fails(_: str) -> None:
        raise error

    monkeypatch.setattr(compute, "get_server_console_output", fails)
    assert guests.look(SimpleNamespace(compute=compute), ASKED, tmp_path / "none") == {}


def test_a_server_that_somebody_deletes_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = Compute({})

    def gone(_: str) -> None:
        raise exceptions.NotFoundException

    monkeypatch.setattr(compute, "get_server", gone)
    with pytest.raises(Refused, match="vm1: its server id1 is gone"):
        guests.wait(SimpleNamespace(compute=compute), ASKED, tmp_path / "none", 60)


def test_a_server_that_tells_nothing_is_given_up(tmp_path: Path) -> None:
    cloud = SimpleNamespace(compute=Compute({"id1": [server("BUILD")]}))
    with pytest.raises(Refused, match="debian login") as refused:
        guests.wait(cloud, ASKED, tmp_path / "none", 0)
    assert "vm1: nothing after 0 s" in str(refused.value)


def test_all_that_bears_the_name_of_the_testbed_is_found() -> None:
    def named(*names: str | None) -> list[SimpleNamespace]:
        return [SimpleNamespace(id=f"id-{name}", name=name) for name in names]

    tagged = SimpleNamespace(id="id-9", name="renamed", metadata={found.TAG: "lab"})

    held = SimpleNamespace(id="id-7", name="metal7", extra={found.TAG: "lab"})
    cloud = SimpleNamespace(
        has_service=lambda kind: kind == "baremetal",
        baremetal=SimpleNamespace(nodes=lambda **_: [held, *named("other")], allocations=named),
        compute=SimpleNamespace(
            servers=lambda **_: [*named("strata-lab-vm1", "strata-lab2-vm1", "other"), tagged],
            flavors=lambda **_: named(),
            keypairs=lambda: named("strata-lab"),
        ),
        image=SimpleNamespace(images=lambda: named(None, "strata-lab-abc")),
        network=SimpleNamespace(
            security_groups=lambda: named("default", "strata-lab"),
            ips=lambda: [
                SimpleNamespace(id="id-5", name="192.0.2.5", description="strata-lab-vm1"),
                SimpleNamespace(id="id-6", name="192.0.2.6", description="strata-lab2-vm1"),
            ],
        ),
    )
    assert found.found(cloud, "lab") == {
        "servers": {"id-strata-lab-vm1": "strata-lab-vm1", "id-9": "renamed"},
        "addresses": {"id-5": "192.0.2.5"},
        "security_groups": {"id-strata-lab": "strata-lab"},
        "images": {"id-strata-lab-abc": "strata-lab-abc"},
        "keypairs": {"id-strata-lab": "strata-lab"},
        "nodes": {"id-7": "metal7"},
    }
