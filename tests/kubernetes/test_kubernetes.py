"""A real cluster on two rehearsal nodes: made, made again, networks switched, taken away.

Its figures of time are printed: nothing is measured by them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import EXPERIMENTS, REPO, environment
from tools import kubernetes_offline

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.lab]

NAME, SUBNET = "cluster", "10.201.247.0/24"
GROUPS = {
    "testbed": {"children": {"native": None}},
    "bare_metal": {"children": {"rehearsal": None}},
    "native": {"children": {"rehearsal": None}},
    "kubernetes": {"children": {"rehearsal": None}},
    "rehearsal": None,
}
SECRET = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}|PRIVATE KEY|client-key-data|LS0tLS1")


@dataclass
class Cluster:
    inventory: Path

    def call(self, role: str, entry: str, *more: str, check: bool = True) -> str:
        """Call an entry point of a role on all nodes; what Ansible said."""
        given = [f"-estrata_root={REPO}", f"-erole={role}", f"-eentry={entry}", *more]
        began = time.monotonic()
        done = run("tests/data/playbooks/cluster.yml", "-i", str(self.inventory), *given)
        print(f"\n{role} {entry} {' '.join(more)}: {time.monotonic() - began:.0f} s")
        said = done.stdout + done.stderr
        assert not SECRET.search(said)
        assert not check or done.returncode == 0, said[-5000:]
        assert check or done.returncode != 0, said[-5000:]
        return said

    def flannel(self, backend: str, entry: str, state: str = "", check: bool = True) -> str:
        more = [
            f"-esetting_name=flannel_{backend}",
            *([f"-esetting_state={state}"] if state else []),
        ]
        return self.call("flannel", entry, *more, check=check)

    def site(self, experiment: str, results: Path) -> list[dict[str, Any]]:
        """Run an experiment; its records. What it says of time is printed."""
        asked = f"-estrata_experiment={EXPERIMENTS / experiment}.yml"
        began = time.monotonic()
        done = run("site.yml", "-i", str(self.inventory), asked, f"-estrata_results={results}")
        print(f"\nsite.yml {experiment}: {time.monotonic() - began:.0f} s")
        said = done.stdout + done.stderr
        assert done.returncode == 0, said[-6000:]
        assert not SECRET.search(said)
        return [json.loads(path.read_text()) for path in results.rglob("record.json")]

    def shell(self, node: int, script: str) -> str:
        command = ["docker", "exec", f"rehearsal-{NAME}-node{node}", "/bin/sh", "-c", script]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run(playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ansible-playbook", playbook, *arguments],
        cwd=REPO,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def rehearse(inventory: Path, *more: str) -> None:
    given = [f"-erehearsal_lab={NAME}", f"-erehearsal_subnet={SUBNET}", "-erehearsal_nodes=2"]
    given += [f"-erehearsal_inventory={inventory}", "-erehearsal_rate=none", *more]
    done = run("playbooks/rehearse.yml", *given)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes that are servers, and what a cluster is made of."""
    subprocess.run(
        [sys.executable, "tools/kubernetes_offline.py", "make", *kubernetes_offline.BUNDLES],
        cwd=REPO,
        env=os.environ,
        check=True,
    )
    for bundle in kubernetes_offline.BUNDLES:
        assert kubernetes_offline.folder(REPO / ".cache", bundle).is_dir()
    inventory = tmp_path_factory.mktemp("lab") / "inventory"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text(yaml.safe_dump(GROUPS))
    try:
        rehearse(inventory)
        yield Cluster(inventory)
    finally:
        rehearse(inventory, "-estate=absent")


@pytest.fixture(scope="module")
def deployed(cluster: Cluster) -> Cluster:
    cluster.call("kubernetes", "main")
    return cluster


def test_a_second_time_changes_nothing_and_check_mode_is_clean(deployed: Cluster) -> None:
    for more in ((), ("--check",)):
        again = deployed.call("kubernetes", "main", *more)
        assert re.findall(r"changed=([1-9]\d*)", again) == [], again


def test_each_network_is_switched_to_proven_measured_and_left_without_a_trace(
    deployed: Cluster, tmp_path: Path
) -> None:
    """The first on a cluster that had none before; the run stage compares the hosts' state."""
    records = deployed.site("cluster", tmp_path / "results")
    assert {record["status"] for record in records} == {"ok"}, [r["reason"] for r in records]
    found = {record["platform"]: record for record in records}
    networks = {"flannel_vxlan": "not enforced", "calico": "enforced", "cilium": "enforced"}
    assert found.keys() == {
        "bare_metal/native/host",
        *(f"bare_metal/kubernetes/{network}" for network in ("host", *networks)),
    }
    for network in networks:
        client, server = found[f"bare_metal/kubernetes/{network}"]["members"]
        assert client["host"] != server["host"]
        for member in (client, server):
            assert member["environment"]["route"]["path_mtu"] == 1450
            assert member["metrics"]["cpu"]["value"] > 0
            assert member["phases"]["scheduling"] >= 0 < member["phases"]["sandbox"]
            print(f"\n{network} {member['role']}: {member['phases']}")
    (journal,) = (tmp_path / "results").rglob("journal.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    seen = {each["setting"]: each["seen"] for each in events if each["event"] == "setting_proven"}
    print(json.dumps(seen, indent=2))
    for network, policies in networks.items():
        assert {facts["policies"] for facts in seen[network].values()} == {policies}


def test_the_dirty_switch_is_refused(deployed: Cluster) -> None:
    """The routes of host-gw are more specific than those of udp, and carry all of its packets."""
    deployed.flannel("host_gw", "present")
    deployed.flannel("host_gw", "prove", "present")
    refused = deployed.flannel("host_gw", "prove", "absent", check=False)
    assert "of flannel_host_gw something is left" in refused
    routes = deployed.shell(1, "ip -4 route").splitlines()
    kept = [route for route in routes if route.startswith("10.218.") and " via " in route]
    assert len(kept) == 1
    deployed.flannel("host_gw", "absent")
    deployed.flannel("host_gw", "prove", "absent")

    deployed.flannel("udp", "present")
    deployed.flannel("udp", "prove", "present")
    deployed.shell(1, f"ip route add {kept[0]}")
    refused = deployed.flannel("udp", "prove", "present", check=False)
    assert "what is asked for is what carries the packets" in refused
    asked = r"asked:\s+route\s+to\s+node2\s+is\s+flannel0;\s+running:\s+eth0"
    assert re.search(asked, refused), refused[-3000:]
    deployed.flannel("udp", "absent")
    deployed.flannel("udp", "prove", "absent")


def test_two_workers_train_in_pods(deployed: Cluster, tmp_path: Path) -> None:
    (record,) = deployed.site("cluster_training", tmp_path / "results")
    assert record["status"] == "ok", record["reason"]
    assert record["metrics"]["throughput"]["value"] > 0


def test_a_cluster_goes_and_is_looked_for(deployed: Cluster) -> None:
    deployed.call("kubernetes", "absent")
    deployed.call("kubernetes", "prove")
