"""A real cluster on two rehearsal nodes: made, made again, networks switched, taken away.

Its figures of time are printed: nothing is measured by them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPO, environment
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

    def network(self, backend: str, entry: str, *more: str, check: bool = True) -> str:
        return self.call("flannel", entry, f"-esetting_name=flannel_{backend}", *more, check=check)

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
        [sys.executable, "tools/kubernetes_offline.py", "make"],
        cwd=REPO,
        env=os.environ,
        check=True,
    )
    assert kubernetes_offline.folder(REPO / ".cache").is_dir()
    inventory = tmp_path_factory.mktemp("lab") / "inventory"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text(yaml.safe_dump(GROUPS))
    try:
        rehearse(inventory)
        yield Cluster(inventory)
    finally:
        rehearse(inventory, "-estate=absent")


def test_a_cluster_comes_switches_its_network_and_goes(cluster: Cluster) -> None:
    cluster.call("kubernetes", "main")
    again = cluster.call("kubernetes", "main")
    assert re.findall(r"changed=([1-9]\d*)", again) == [], again
    assert re.findall(r"changed=([1-9]\d*)", cluster.call("kubernetes", "main", "--check")) == []

    for backend in ("vxlan", "host_gw"):
        cluster.network(backend, "present")
        cluster.network(backend, "prove", "-esetting_state=present")
        refused = cluster.network(backend, "prove", "-esetting_state=absent", check=False)
        assert "something is left" in refused
        kept = cluster.shell(1, "ip -4 route show proto static || true; ip -4 route")
        cluster.network(backend, "absent")
        cluster.network(backend, "prove", "-esetting_state=absent")

    # The dirty switch: host-gw's routes, more specific than udp's, are there again.
    routes = {line for line in kept.splitlines() if line.startswith("10.218.") and " via " in line}
    assert len(routes) == 1
    cluster.network("udp", "present")
    cluster.network("udp", "prove", "-esetting_state=present")
    for route in routes:
        cluster.shell(1, f"ip route add {route}")
    refused = cluster.network("udp", "prove", "-esetting_state=present", check=False)
    assert "what is asked for is what carries the packets" in refused
    assert re.search(
        r"asked: packets to the pods of node2 leave by flannel0; running: by eth0", refused
    )

    cluster.network("udp", "absent")
    cluster.network("udp", "prove", "-esetting_state=absent")
    cluster.call("kubernetes", "absent")
    cluster.call("kubernetes", "prove")
