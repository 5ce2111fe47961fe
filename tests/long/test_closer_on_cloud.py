"""The design of CLOSER 2018 on hosts that a cloud makes: two of each substrate.

Hours on two cores, which emulate all four of them. The cloud, its services and the cluster are
real; the control plane is on a node of a rehearsal lab, since it is no host of a trial.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import openstack
import pandas as pd
import pytest
import yaml

from tests.conftest import REPO, environment
from tests.integration.lab import folder, records, whole
from tests.openstack import conftest
from tests.openstack.testbed import BMC, BMC2, CLOUD, CLOUDS, Testbed
from tools import kubernetes_offline

UNHEARD = "ignore::openstack.warnings.RemovedInSDK60Warning"
pytestmark = [
    pytest.mark.root,
    pytest.mark.docker,
    pytest.mark.image,
    pytest.mark.filterwarnings(UNHEARD),
]

# Of all that is emulated side by side, at most.
PATIENCE_S = 3600
# In MiB: of a host with a worker and the parameter server, and of one with a worker.
MEMORY, LESS = 4352, 2560
HOSTS = ("metal1", "metal2", "vm1", "vm2")
LAB, SUBNET, CONTROL = "closer", "10.201.246.0/24", "10.201.246.11"
CLOSER = ("-estrata_experiment=closer2018", "-estrata_slice=rehearsal_cloud")
# An emulated host that installs packages takes a quarter of an hour for it: they are in its image.
PACKAGES = ["apparmor", "docker.io", "iptables", "python3-docker", "rsync"]
PACKAGES += ["conntrack", "containerd", "ethtool", "kmod", "python3-kubernetes", "socat"]


def write(inventory: Path) -> None:
    made = {
        **{"strata_provider": "openstack", "openstack_cloud": CLOUD},
        **{"openstack_clouds": str(CLOUDS), "openstack_network": "guests"},
        **{"openstack_memory": LESS, "openstack_disk": 14, "openstack_patience": PATIENCE_S},
        **{"openstack_deploy": "direct", "openstack_gateway": "10.78.0.1"},
        **{"openstack_metal_kernel": "linux-image-cloud-amd64", "openstack_packages": PACKAGES},
        "openstack_kernel_arguments": "highres=off",
    }
    metal = {
        f"metal{number}": {
            "openstack_node": yaml.safe_load(told.read_text()),
            "openstack_address": f"10.78.0.1{number}/24",
        }
        for number, told in enumerate((BMC, BMC2), 1)
    }
    lab = {"strata_provider": "rehearsal", "rehearsal_lab": LAB, "rehearsal_subnet": SUBNET}
    measured = {"children": {"measured": None}}
    groups = {
        "testbed": {"children": dict.fromkeys(("native", "docker", "kubernetes"))},
        "bare_metal": {"hosts": {**metal, "control": None}},
        "vm": {"hosts": {"vm1": {"openstack_memory": MEMORY}, "vm2": None}},
        "measured": {"hosts": dict.fromkeys(HOSTS), "vars": made},
        "native": measured,
        "docker": measured,
        "kubernetes": {
            **measured,
            "hosts": {"control": {"strata_address": CONTROL, "rehearsal_rate": "none", **lab}},
            "vars": {"kubernetes_control": "control"},
        },
    }
    (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))


def keep_bytecode(testbed: Testbed) -> None:
    """Have the hosts keep what Python compiles, half of what a task takes there."""
    hosts = {host: made["connection"] for host, made in testbed.ledger.hosts().items()}
    folder = testbed.inventory.parent / "made"
    folder.mkdir(exist_ok=True)
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    source = REPO / "tests/bytecode/sitecustomize.py"
    copy = f"src={source} dest=/usr/lib/python3.11/sitecustomize.py"
    command = ["ansible", "all", "-i", str(folder), "-m", "ansible.builtin.copy", "-a", copy]
    subprocess.run(command, cwd=REPO, env=environment(), check=True)


@pytest.fixture
def testbed(tmp_path: Path) -> Iterator[Testbed]:
    if not kubernetes_offline.folder(REPO / ".cache", "kubernetes").is_dir():
        pytest.skip("the offline folder of kubernetes is not there: tools/kubernetes_offline.py")
    size = (
        f"-erehearsal_cloud_node_memory={MEMORY}",
        f"-erehearsal_cloud_second_memory={LESS}",
        "-erehearsal_cloud_node_disk=16",
    )
    with conftest.made("-erehearsal_cloud_agent=true", *size) as cloud:
        yield from _testbed(cloud, tmp_path)


def _testbed(cloud: openstack.connection.Connection, tmp_path: Path) -> Iterator[Testbed]:
    inventory = tmp_path / "testbed"
    inventory.mkdir()
    write(inventory)
    made = Testbed(inventory, [], {}, cloud)
    try:
        yield made
    finally:
        # It fails when anything of the testbed is left.
        made.on("playbooks/teardown", "--limit=testbed")


def test_closer2018_runs_to_its_end_on_emulated_hosts(testbed: Testbed, tmp_path: Path) -> None:
    results = tmp_path / "results"
    testbed.on("site", "--tags=provision", *CLOSER, f"-estrata_results={results}")
    keep_bytecode(testbed)
    testbed.on("site", *CLOSER, f"-estrata_results={results}")
    assert whole(results)
    platforms = Counter(record["platform"] for record in records(results).values())
    assert platforms == {
        f"{substrate}/{how}": trials
        for substrate in ("bare_metal", "vm")
        for how, trials in {
            **{"native/host": 1, "docker/host": 1, "kubernetes/flannel_vxlan": 1},
        }.items()
    }
    run = folder(results)
    assert run
    for host in HOSTS:
        values = json.loads((run / f"hosts/{host}.json").read_text())["values"]
        assert (values["virtualisation"], values["accelerator"]) == ("qemu-tcg", "tcg")
    said = (run / "report/index.html").read_text()
    assert f"QEMU emulates the CPU of {', '.join(HOSTS)}" in said
    assert set(pd.read_csv(run / "report/comparisons.csv")["verdict"]) == {"emulated"}

    testbed.on("playbooks/teardown", "--limit=testbed", f"-estrata_results={results}")
    assert testbed.servers() == {} and testbed.node_states() == {}
    assert testbed.ledger.hosts() == {}
