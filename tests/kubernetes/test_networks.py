"""Every network of pods on a real cluster of two rehearsal nodes, switched to, measured and left.

What a cluster does with flannel alone is in tests/cluster. Figures of time are printed: nothing is
measured by them.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.cluster import lab

pytestmark = [pytest.mark.root, pytest.mark.docker]
KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/admin.conf"
# Whether it enforces policies, and its MTU between two hosts.
NETWORKS = {
    "flannel_vxlan": ("not enforced", 1450),
    "calico": ("enforced", 1450),
    "cilium": ("enforced", 1450),
    "cilium_without_kube_proxy": ("enforced", 1450),
    "cilium_native": ("enforced", 1500),
}
# Who of client and server is in a pod, and by which way the client goes.
IN_PODS = {
    ("both", "address"): (True, True),
    ("both", "service"): (True, True),
    ("client_only", "address"): (True, False),
    ("server_only", "address"): (False, True),
}


def test_a_second_time_changes_nothing_and_check_mode_is_clean(deployed: lab.Cluster) -> None:
    for more in ((), ("--check",)):
        again = deployed.call("kubernetes", "main", *more)
        assert re.findall(r"changed=([1-9]\d*)", again) == [], again


def test_a_pod_runs_on_cpus_that_nobody_else_has(deployed: lab.Cluster, tmp_path: Path) -> None:
    """One of two. Which one a pod has, its node says; without a limit it has both."""
    records = deployed.site("cluster_cpus", tmp_path / "results")
    assert {record["status"] for record in records} == {"ok"}, [r["reason"] for r in records]
    ran = {
        (record["levels"]["runtime"], record["levels"]["cpus"]): record["workload"]["environment"]
        for record in records
    }
    assert {key: len(environment["cpus"]) for key, environment in ran.items()} == {
        ("native", None): os.cpu_count(),
        ("kubernetes", None): os.cpu_count(),
        ("native", "1"): 1,
        ("kubernetes", "1"): 1,
    }
    refused = deployed.call("kubernetes", "main", "-ekubernetes_cpu_manager=none", check=False)
    assert "is settled when it joins the cluster" in refused


def nodes(deployed: lab.Cluster) -> set[str]:
    return set(deployed.shell(1, f"{KUBECTL} get nodes -o name | cut -d/ -f2").split())


def test_a_node_joins_is_no_host_of_a_network_and_goes(deployed: lab.Cluster) -> None:
    """Nobody would clean it of a network that is made on the others."""
    lab.rehearse(deployed.inventory, "-erehearsal_nodes=3")
    deployed.call("kubernetes", "main")
    assert nodes(deployed) == {"node1", "node2", "node3"}
    given = ("-esetting_name=flannel_host_gw", "--limit=node1,node2")
    deployed.call("flannel", "present", *given)
    asked = "-n kube-flannel get pods -o jsonpath='{.items[*].spec.nodeName}'"
    pods = deployed.shell(1, f"{KUBECTL} {asked}").split()
    has = [deployed.shell(number, "ls /etc/cni/net.d 2>/dev/null || true") for number in (1, 2, 3)]
    deployed.call("flannel", "absent", *given)
    assert set(pods) == {"node1", "node2"} and has == [*["10-flannel.conflist\n"] * 2, ""]

    deployed.call("kubernetes", "remove", "--limit=node3")
    deployed.call("kubernetes", "prove", "--limit=node3")
    assert nodes(deployed) == {"node1", "node2"}
    lab.rehearse(deployed.inventory)


def test_each_network_is_switched_to_proven_measured_and_left_without_a_trace(
    deployed: lab.Cluster, tmp_path: Path
) -> None:
    """The first on a cluster that had none before; the run stage compares the hosts' state."""
    records = deployed.site("cluster_networks", tmp_path / "results")
    assert {record["status"] for record in records} == {"ok"}, [r["reason"] for r in records]
    assert {record["platform"] for record in records} == {
        "bare_metal/native/host",
        *(f"bare_metal/kubernetes/{network}" for network in ("host", *NETWORKS)),
    }
    for record in (each for each in records if each["levels"]["network"] in NETWORKS):
        levels = record["levels"]
        client, server = record["members"]
        assert client["host"] != server["host"]
        for member in (client, server):
            assert member["environment"]["route"]["path_mtu"] == NETWORKS[levels["network"]][1]
            assert member["metrics"]["cpu"]["value"] > 0
            assert member["phases"]["scheduling"] >= 0 < member["phases"]["sandbox"]
        print(f"\n{levels['network']} {levels['workload']} {levels['through']}: {client['phases']}")
        # Without a tunnel a host's own end leaves by a device of the same name.
        devices = tuple(end["environment"]["route"]["device"] == "eth0" for end in (client, server))
        way = levels["ends"], levels["through"]
        assert levels["network"] == "cilium_native" or devices == IN_PODS[way]
        # The address of the service, of which the program behind it knows nothing.
        peer = client["environment"]["route"]["peer"]
        assert peer.startswith("10.219.") == (levels["through"] == "service")
    measured = {
        tuple(r["levels"][name] for name in ("network", "ends", "through")) for r in records
    }
    assert measured >= {(network, *way) for network in NETWORKS for way in IN_PODS}
    (journal,) = (tmp_path / "results").rglob("journal.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    seen = {each["setting"]: each["seen"] for each in events if each["event"] == "setting_proven"}
    print(json.dumps(seen, indent=2))
    for network, (policies, _) in NETWORKS.items():
        assert {facts["policies"] for facts in seen[network].values()} == {policies}
