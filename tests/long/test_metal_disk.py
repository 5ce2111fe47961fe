"""The disk of bare metal: erased by Ironic's deploy ramdisk, and written as a whole.

Ironic, its agent and its deploy ramdisk are real; the BMC and the machine behind it are not.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.lab import folder, records
from tests.openstack.conftest import cloud, rehearse, testbed
from tests.openstack.test_metal import metal, node
from tests.openstack.testbed import EVERY_S, FOLDER, IPMI, SLICE, SPIN, WRONG, Testbed, write

__all__ = ["cloud", "testbed"]
UNHEARD = "ignore::openstack.warnings.RemovedInSDK60Warning"
pytestmark = [pytest.mark.root, pytest.mark.image, pytest.mark.filterwarnings(UNHEARD)]

DISK = FOLDER / "state/metal1.qcow2"
# Beyond the image that is written, and before what tells the host about itself.
FAR = "5G"
DIRECT = {"openstack_deploy": "direct", "openstack_disk": 4}


def mark() -> None:
    """Have something at the begin of the node's disk, and far from there; nobody runs on it."""
    for at in ("0", FAR):
        subprocess.run(["qemu-io", "-c", f"write -P 0xab {at} 1M", str(DISK)], check=True)


def has(pattern: str, at: str) -> bool:
    """Whether the disk has these bytes there, whoever runs on it."""
    read = ["qemu-io", "-U", "-r", "-c", f"read -P {pattern} {at} 4k", str(DISK)]
    return "failed" not in subprocess.run(read, capture_output=True, text=True, check=True).stdout


def on_host(testbed: Testbed, *command: str) -> str:
    """What a command says on the host, by the ledger's way to it."""
    way = testbed.ledger.hosts()["metal1"]["connection"]
    options = [
        "-i",
        way["ansible_ssh_private_key_file"],
        *shlex.split(way["ansible_ssh_common_args"]),
    ]
    login = f"{way['ansible_user']}@{way['ansible_host']}"
    done = subprocess.run(
        ["ssh", *options, login, *command], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def without_ramdisk() -> dict[str, Any]:
    told = node()
    told["driver_info"] = {k: v for k, v in told["driver_info"].items() if "deploy" not in k}
    return told


def test_a_disk_is_erased_and_a_host_that_runs_from_memory_leaves_it_so(testbed: Testbed) -> None:
    rehearse("-erehearsal_cloud_agent=true")
    metal(testbed, without_ramdisk(), openstack_clean="metadata")
    said = testbed.on("site", "--tags=provision", *SPIN, check=False)
    assert "by a deploy ramdisk that the inventory or the cloud names" in said, said[-6000:]

    mark()
    metal(testbed, openstack_clean="metadata")
    testbed.on("site", "--tags=provision", *SPIN)
    assert has("0", "0") and has("0xab", FAR), "what is not metadata stays"
    assert on_host(testbed, "findmnt", "-no", "FSTYPE", "/") == "tmpfs"
    testbed.on("playbooks/teardown", "--limit=testbed")


def test_a_host_runs_from_its_disk_killed_while_it_is_erased(
    testbed: Testbed, tmp_path: Path
) -> None:
    rehearse("-erehearsal_cloud_agent=true")
    results, ironic = tmp_path / "results", testbed.cloud.baremetal
    mark()
    metal(testbed, openstack_clean="full", **DIRECT)
    making = testbed.begin("spin", results, SLICE)
    making.until(
        lambda: "clean wait" in testbed.node_states().values(), "the disk is erased", EVERY_S
    )
    making.kill()

    testbed.on("site", *SPIN, f"-estrata_results={results}")
    (name,) = testbed.node_states()
    assert testbed.node_states() == {name: "active"}
    assert has("0", FAR), "all of it was erased"
    assert on_host(testbed, "findmnt", "-no", "SOURCE", "/") == "/dev/vda2"
    assert {record["status"] for record in records(results).values()} == {"ok"}
    run = folder(results)
    assert run and "metal1" in (run / "lives.json").read_text()

    said = testbed.on("site", "--tags=provision", *SPIN)
    (recap,) = [line for line in said.splitlines() if line.startswith("metal1 ")]
    assert "changed=0" in recap, said[-6000:]
    # From its disk it comes back as it was.
    ironic.set_node_power_state(ironic.find_node(name), "rebooting", wait=True)
    testbed.on("site", "--tags=provision", *SPIN)

    testbed.on("playbooks/teardown", "--limit=testbed")
    assert testbed.node_states() == {} and testbed.ledger.hosts() == {}
    assert not [image.name for image in testbed.cloud.image.images()]


def test_a_node_whose_bmc_speaks_ipmi_starts_over_the_network_and_gets_its_disk(
    testbed: Testbed,
) -> None:
    rehearse("-erehearsal_cloud_agent=true")
    told = yaml.safe_load(IPMI.read_text())
    wrong = {**told, "driver_info": {**told["driver_info"], "ipmi_password": WRONG}}
    metal(testbed, wrong, **DIRECT)
    said = testbed.on("site", "--tags=provision", *SPIN, check=False)
    assert "reaches the BMC of the node" in said and WRONG not in said, said[-6000:]

    metal(testbed, told, **DIRECT)
    testbed.on("site", "--tags=provision", *SPIN)
    assert on_host(testbed, "findmnt", "-no", "SOURCE", "/") == "/dev/vda2"
    said = testbed.on("site", "--tags=provision", *SPIN)
    (recap,) = [line for line in said.splitlines() if line.startswith("metal1 ")]
    assert "changed=0" in recap, said[-6000:]
    testbed.on("playbooks/teardown", "--limit=testbed")
    assert testbed.node_states() == {}


def test_nova_makes_a_server_of_a_node_that_the_cloud_has(testbed: Testbed, tmp_path: Path) -> None:
    """Of a flavor of bare metal: its image has that kernel, and its host key is given."""
    rehearse("-erehearsal_cloud_agent=true")
    results, ironic = tmp_path / "results", testbed.cloud.baremetal
    given = {"openstack_flavor": "metal", "openstack_network": "metal", "openstack_disk": 4}
    more = {"openstack_metal_kernel": "linux-image-cloud-amd64"}
    write(testbed.inventory, {"metal1": {}}, "bare_metal", **given, **more)
    testbed.on("site", *SPIN, f"-estrata_results={results}")
    (server,) = testbed.cloud.compute.servers()
    (node,) = [each for each in ironic.nodes(details=True) if each.instance_id]
    assert (node.instance_id, node.provision_state) == (server.id, "active")
    assert testbed.ledger.hosts()["metal1"]["instance"] == server.id
    assert on_host(testbed, "findmnt", "-no", "SOURCE", "/") == "/dev/vda2"
    found = records(results).values()
    assert {record["status"] for record in found} == {"ok"}
    assert {record["platform"].split("/")[0] for record in found} == {"bare_metal"}

    said = testbed.on("site", "--tags=provision", *SPIN)
    (recap,) = [line for line in said.splitlines() if line.startswith("metal1 ")]
    assert "changed=0" in recap, said[-6000:]
    testbed.on("playbooks/teardown", "--limit=testbed")
    assert testbed.servers() == {} and testbed.ledger.hosts() == {}
    assert not [image.name for image in testbed.cloud.image.images()]
    node = ironic.wait_for_nodes_provision_state([node], "available")[0]
    assert node.instance_id is None
