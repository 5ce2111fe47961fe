"""A real cluster on two rehearsal nodes: made, two networks switched, measured, taken away.

A part of every run of the tests, so that it is short; every network is in tests/kubernetes. Figures
of time are printed: nothing is measured by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import lab

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]
OTHERS = "/etc/cni/net.d/87-other.conflist"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Cluster]:
    """Two nodes of a cluster that has no network of pods yet."""
    with lab.made(tmp_path_factory.mktemp("lab") / "inventory", "kubernetes") as cluster:
        cluster.call("kubernetes", "main")
        yield cluster


def test_a_network_that_somebody_left_behind_is_refused(deployed: lab.Cluster) -> None:
    """The engine takes the first that it finds, whoever was asked for."""
    deployed.shell(2, f"mkdir -p /etc/cni/net.d && touch {OTHERS}")
    refused = deployed.flannel("udp", "present", check=False)
    assert f"node2 has {OTHERS}, and flannel_udp is asked for" in refused
    assert "node1 has" not in refused and re.findall(r"changed=([1-9]\d*)", refused) == []
    deployed.flannel("udp", "check")  # that of a run that was killed is left before a switch
    deployed.shell(2, f"rm {OTHERS}")


def test_the_dirty_switch_is_refused(deployed: lab.Cluster) -> None:
    """The routes of host-gw are more specific than those of udp, and carry all of its packets."""
    deployed.flannel("host_gw", "present")
    again = deployed.flannel("host_gw", "present")
    assert re.findall(r"changed=([1-9]\d*)", again) == [], again
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


def test_ends_a_service_and_two_workers_that_train(deployed: lab.Cluster, tmp_path: Path) -> None:
    """Where each end stood, and what the client got to, is what the programs themselves saw."""
    records = deployed.site("cluster", tmp_path / "results")
    assert {record["status"] for record in records} == {"ok"}, [r["reason"] for r in records]
    found = {
        (record["levels"].get("ends"), record["levels"].get("through")): record
        for record in records
    }
    assert len(records) == len(found) == 5
    assert found.pop((None, None))["metrics"]["throughput"]["value"] > 0
    for (ends, through), record in found.items():
        client, server = (member["environment"]["route"] for member in record["members"])
        print(f"\n{ends} {through}: {record['metrics']['latency_p50']} {client} {server}")
        in_pod = {"both": (True, True), "client_only": (True, False), "server_only": (False, True)}
        assert tuple(end["device"] == "eth0" for end in (client, server)) == in_pod[ends]
        assert client["path_mtu"] == 1450, "on the tunnel"
        behind = client["peer"].startswith("10.219."), client["peer"] != server["own"]
        assert behind == (through == "service",) * 2


def test_a_cluster_goes_and_is_looked_for(deployed: lab.Cluster) -> None:
    deployed.call("kubernetes", "absent")
    deployed.call("kubernetes", "prove")
    deployed.shell(2, f"touch {OTHERS}")
    for entry in (("flannel", "check", "-esetting_name=flannel_udp"), ("kubernetes", "main")):
        refused = deployed.call(*entry, check=False)
        assert "node2 has /etc/cni/net.d" in refused
        assert re.findall(r"changed=([1-9]\d*)", refused) == []
