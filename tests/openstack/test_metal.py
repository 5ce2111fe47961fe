"""Bare metal that Ironic deploys: refused, enrolled, looked at, killed, measured, given back.

Ironic, its conductor and the words of Redfish are real; the BMC and the machine behind it are not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.lab import PATIENCE_S, folder, lived_and_ended, records

from .testbed import BMC, EVERY_S, SLICE, SPIN, WRONG, Testbed, write

UNHEARD = "ignore::openstack.warnings.RemovedInSDK60Warning"
pytestmark = [pytest.mark.root, pytest.mark.image, pytest.mark.filterwarnings(UNHEARD)]


def node(**driver_info: str) -> dict[str, Any]:
    """How the emulated server is enrolled, but for what is given."""
    told: dict[str, Any] = yaml.safe_load(BMC.read_text())
    told["driver_info"] |= driver_info
    return told


def metal(testbed: Testbed, told: dict[str, Any] | None = None, **settings: Any) -> None:
    """An inventory of one bare-metal host; a kernel that knows no more than what is emulated."""
    host = {"openstack_node": node() if told is None else told}
    given = {
        **{"openstack_address": "10.78.0.11/24", "openstack_gateway": "10.78.0.1"},
        "openstack_metal_kernel": "linux-image-cloud-amd64",
        **settings,
    }
    write(testbed.inventory, {"metal1": host}, "bare_metal", **given)


def test_bare_metal_is_deployed_measured_and_given_back(testbed: Testbed, tmp_path: Path) -> None:
    results, book, ironic = tmp_path / "results", testbed.ledger, testbed.cloud.baremetal

    # Before anything is made.
    given = {
        "openstack_node": node(),
        "openstack_address": "10.78.0.11/24",
        "openstack_gateway": "10.78.0.1",
    }
    refused: dict[str, tuple[dict[str, Any], str]] = {
        "none": (
            {"openstack_node": {}, "openstack_resource_class": "gpu"},
            "1 of 'gpu'; of its nodes are none there",
        ),
        "driver": (
            {"openstack_node": {**node(), "driver": "redfisch"}},
            "did you mean 'redfish'",
        ),
        "address": ({"openstack_address": ""}, "bare metal is given its address"),
        "nothing": (
            {"openstack_node": {**node(), "driver_info": None}},
            "a node is enrolled with the driver and the address of its BMC",
        ),
        "words": (
            {"openstack_node": {**node(), "driver_info": WRONG}},
            "a node is enrolled with the driver and the address of its BMC",
        ),
    }
    testbed.refuses(refused, "bare_metal", **given)
    assert testbed.node_states() == {} and book.hosts() == {}

    # What only a BMC can tell; each time the node stays, and the next command goes on with it.
    less = node()
    less["properties"] |= {"memory_mb": 4096}
    for told, words in (
        (node(redfish_address="http://127.0.0.1:8009"), "reaches the BMC of the node"),
        (node(redfish_password=WRONG), "accepts the name and password"),
        (less, "memory_mb 3072, not 4096"),
    ):
        metal(testbed, told)
        said = testbed.on("site", "--tags=provision", *SPIN, check=False)
        assert words in said and WRONG not in said
    metal(testbed)
    (name,) = testbed.node_states()
    ironic.set_node_maintenance(ironic.find_node(name), reason="a fan")
    said = testbed.on("playbooks/preflight", *SPIN, check=False)
    assert "in maintenance: a fan" in said
    ironic.unset_node_maintenance(ironic.find_node(name))
    said = testbed.on("site", "--tags=provision", "--check", *SPIN, check=False)
    assert "metal1 would be made" in said, said[-6000:]

    # Killed in the middle of a deploy, and given up by one that does not wait.
    making = testbed.begin("spin", results, SLICE)
    making.until(
        lambda: testbed.node_states()[name] in ("deploying", "active"), "a deploy", EVERY_S
    )
    making.kill()
    testbed.until_none_waits()
    metal(testbed, openstack_patience=1)
    said = testbed.on("site", "--tags=provision", *SPIN, check=False)
    assert "a node goes from one state to the next, and answers by SSH" in said
    allocation = ironic.get_allocation(name).id

    metal(testbed, openstack_patience=PATIENCE_S)
    testbed.on("site", *SPIN, f"-estrata_results={results}")
    assert testbed.node_states() == {name: "active"}
    assert book.hosts()["metal1"]["instance"] == allocation, "it was deployed once"
    found = records(results).values()
    assert {record["status"] for record in found} == {"ok"}
    assert {record["platform"].split("/")[0] for record in found} == {"bare_metal"}
    run = folder(results)
    assert run
    values = json.loads((run / "hosts/metal1.json").read_text())["values"]
    assert (values["virtualisation"], values["accelerator"]) == ("qemu-tcg", "tcg")
    assert values["kernel.cmdline"] == "highres=off"
    assert "QEMU emulates the CPU of metal1" in (run / "report/index.html").read_text()

    for more in ([], ["--check"]):
        said = testbed.on("site", "--tags=provision", *SPIN, *more)
        (recap,) = [line for line in said.splitlines() if line.startswith("metal1 ")]
        assert "changed=0" in recap, said[-6000:]

    testbed.on("playbooks/teardown", "--limit=testbed", f"-estrata_results={results}")
    lived_and_ended(run, ["metal1"])
    assert testbed.node_states() == {} and book.hosts() == {}
    assert not list(ironic.allocations())
    assert not [image.name for image in testbed.cloud.image.images()]
