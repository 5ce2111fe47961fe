"""Hosts that provision makes on the rehearsal cloud: refused, made, measured, killed, taken away.

No mock anywhere: what a cloud says is said by its services.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.lab import folder, lived_and_ended, records

from .testbed import CLOUD, CLOUDS, EVERY_S, SLICE, SPIN, WRONG, Testbed, supervise, write

UNHEARD = "ignore::openstack.warnings.RemovedInSDK60Warning"
pytestmark = [pytest.mark.root, pytest.mark.image, pytest.mark.filterwarnings(UNHEARD)]

DEVICE = {"alias": "simulated", "vendor_id": "8086", "product_id": "25ab"}
HOSTS = {"vm1": {}, "vm2": {"openstack_device": DEVICE}}


def test_what_cannot_be_had_is_refused_before_anything_is_made(
    testbed: Testbed, tmp_path: Path
) -> None:
    described = yaml.safe_load(CLOUDS.read_text())
    described["clouds"][CLOUD]["auth"]["password"] = WRONG
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump(described))
    refused: dict[str, tuple[dict[str, Any], str]] = {
        "network": ({"openstack_network": "gests"}, "did you mean 'guests'"),
        "outside": ({"openstack_floating": "gests"}, "did you mean 'guests'"),
        "quota": ({"openstack_memory": 2_000_000}, "within the project's quota"),
        "image": ({"openstack_image": "none"}, "sees no image at all"),
        "group": ({"openstack_security_groups": ["defualt"]}, "did you mean 'default'"),
        "filter": (
            {"openstack_security_groups": ["default"]},
            "guests has port security switched off",
        ),
        "flavor": ({"openstack_flavor": "none"}, "sees no flavor at all"),
        "lease": ({"openstack_lease": {"hours": 1}}, "has no service 'reservation'"),
        "days": ({"openstack_lease": {"days": 1}}, "a lease is for some hours"),
        "cloud": ({"openstack_cloud": "none"}, "clouds.yaml describes the cloud by its name"),
        "device": (
            {"openstack_device": {"alias": "simulated"}},
            "a device is known by the cloud's alias",
        ),
        "password": (
            {"openstack_clouds": str(tmp_path / "clouds.yaml")},
            "accepts the credentials that clouds.yaml has",
        ),
    }
    testbed.refuses(refused)

    # As a user is told of it.
    write(testbed.inventory, {"vm1": {}}, openstack_network="gests")
    assert "did you mean 'guests'" in testbed.on("playbooks/preflight", *SPIN, check=False)

    for service, words in (
        ("cloud:nova-api", "the services of the cloud answer"),
        ("identity:keystone", "the identity service of the cloud answers"),
    ):
        supervise("stop", service)
        try:
            testbed.refuses({"vm1": ({}, words)})
        finally:
            supervise("start", service)
            testbed.until_it_answers()
    assert testbed.servers() == {} and testbed.ledger.hosts() == {}


def test_hosts_are_made_measured_and_taken_away(testbed: Testbed, tmp_path: Path) -> None:
    results, book = tmp_path / "results", testbed.ledger
    write(testbed.inventory, HOSTS)
    said = testbed.on("site", "--tags=provision", "--check", *SPIN, check=False)
    assert "vm1, vm2 would be made" in said, said[-6000:]
    assert testbed.servers() == {}

    # Killed while servers are made, and one of them is deleted by somebody else.
    making = testbed.begin("spin", results, SLICE)
    making.until(testbed.servers, "a server", EVERY_S)
    making.kill()
    assert set(book.hosts()) == set(HOSTS), "what may be there was noted before"
    testbed.until_none_waits()
    names = {host: f"strata-{book.testbed}-{host}" for host in HOSTS}
    testbed.deleted(next(name for name in names.values() if name in testbed.servers()))

    testbed.on("site", *SPIN, f"-estrata_results={results}")
    assert testbed.servers() == dict.fromkeys(names.values(), "ACTIVE")
    found = records(results).values()
    assert {record["status"] for record in found} == {"ok"}
    assert {record["platform"].split("/")[0] for record in found} == {"vm"}
    run = folder(results)
    assert run
    for host, settings in HOSTS.items():
        values = json.loads((run / f"hosts/{host}.json").read_text())["values"]
        assert (values["virtualisation"], values["accelerator"]) == ("qemu-tcg", "tcg")
        assert values["disk.vda.bus"] == "virtio" and values["kernel.cmdline"] == "highres=off"
        # What the wheels of the workload images are built for.
        assert {"avx2", "sse4_2"} <= set(values["cpu.flags"])
        cards = [values[key] for key in values if key.startswith("nic.") and key.endswith("driver")]
        assert "virtio_net" in cards
        passed = "8086:25ab" in values.get("pci.simulated", [])
        assert passed is ("openstack_device" in settings)
    assert "QEMU emulates the CPU of vm1, vm2" in (run / "report/index.html").read_text()

    for more in ([], ["--check"]):
        said = testbed.on("site", "--tags=provision", *SPIN, *more)
        recaps = [line for line in said.splitlines() if line.startswith(("vm1 ", "vm2 "))]
        assert len(recaps) == 2
        assert all("changed=0" in line for line in recaps), said[-6000:]

    # Two devices are there, and one of them is taken.
    for device, words in (
        ({**DEVICE, "count": 2}, "it asks 2 of simulated, so that is most likely PciPassthrough"),
        ({**DEVICE, "alias": "unknown"}, "the cloud has a PCI alias of that name"),
    ):
        write(testbed.inventory, {**HOSTS, "vm3": {"openstack_device": device}})
        assert words in testbed.on("site", "--tags=provision", *SPIN, check=False)
    write(testbed.inventory, {**HOSTS, "vm1": {"openstack_memory": 1024}})
    said = testbed.on("playbooks/preflight", *SPIN, check=False)
    assert "a server that is there is what the inventory asks" in said
    write(testbed.inventory, HOSTS)

    # What no ledger knows bears the testbed's name.
    stray = f"strata-{book.testbed}-stray"
    testbed.cloud.compute.create_flavor(name=stray, ram=64, vcpus=1, disk=1)
    testbed.on("playbooks/teardown", "--limit=testbed", f"-estrata_results={results}")
    lived_and_ended(run, ["vm2"])
    assert testbed.servers() == {} and book.hosts() == {}
    assert not [flavor.name for flavor in testbed.cloud.compute.flavors()]
    assert not [image.name for image in testbed.cloud.image.images()]
