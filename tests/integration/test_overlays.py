"""Networks on a lab of two nodes: each is made, proven, measured and left, at either end of it."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO

from .lab import Lab, cells, folder, journal, planned, records

pytestmark = [
    *(pytest.mark.root, pytest.mark.docker, pytest.mark.image),
    *(pytest.mark.lab, pytest.mark.second_lab),
]
SETTINGS = {"vxlan", "macvlan", "docker_overlay", "wireguard_go", "host_unfiltered"}
# Of each network, where its containers are: Docker's own range; the upper half of a host's 256.
BRIDGE, MEMBERS = ipaddress.IPv4Network("172.16.0.0/12"), 128


def test_every_network_is_proven_measured_and_left(lab: Lab, tmp_path: Path) -> None:
    """Left means: the network of each node is as it was, which the run itself compares."""
    results = tmp_path / "results"
    lab.site("overlays", results)
    assert cells(results) == planned(results)
    found = records(results).values()
    assert {record["platform"] for record in found} == {
        "bare_metal/native/host",
        *(f"bare_metal/native/{name}" for name in ("vxlan", "wireguard_go", "host_unfiltered")),
        *(f"bare_metal/docker/{name}" for name in ("vxlan", "macvlan", "docker_overlay")),
    }
    for event in ("begun", "proven", "left"):
        told = [one["setting"] for one in journal(results) if one["event"] == f"setting_{event}"]
        assert sorted(told) == sorted(SETTINGS), event
    seen = [(r["levels"]["network"], r["workload"].get("environment", {})) for r in found]
    met = [(network, each["packet_filter"]) for network, each in seen if "packet_filter" in each]
    # Docker's engine runs on both nodes.
    assert {(network, each["rules"] > 0, each["tracked"]) for network, each in met} == {
        ("host", True, True),
        ("host_unfiltered", False, False),
    }
    assert lab.left() == {}
    assert all(
        lab.shell(node, "ls /var/lib/strata/network", check=False) == "" for node in lab.nodes
    )


def test_what_a_node_cannot_have_is_refused_in_preflight(lab: Lab, tmp_path: Path) -> None:
    given = ("overlays", tmp_path, "-estrata_slice=encrypted", "--tags=provision")
    said = lab.site(*given, check=False).stdout
    # By hand: a kernel without it refuses a state of that kind.
    made = "unshare --net ip xfrm state add src 127.0.0.1 dst 127.0.0.2 proto esp spi 1"
    key = "0x" + "00" * 20
    has = lab.shell("node1", f"{made} aead 'rfc4106(gcm(aes))' {key} 64 && echo yes", check=False)
    assert ("docker_overlay_encrypted needs ESP, which encrypts" in said) == (has == "")

    left = f"10.214.2.0/24 via {lab.address('node2')}"
    lab.shell("node1", f"ip route add {left}")
    try:
        given = ("overlays", tmp_path, "-estrata_slice=vxlan", "--tags=provision")
        said = lab.site(*given, check=False).stdout
        assert "the subnet of vxlan is nobody else's" in said
        assert "10.214.0.0/16, and on node1 10.214.2.0/24 by eth0" in said
    finally:
        lab.shell("node1", f"ip route del {left}")


def test_each_end_stands_where_it_is_asked_to_and_its_cost_is_told(
    lab: Lab, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    lab.site("ends", results)
    assert cells(results) == planned(results)
    seen = set()
    for record in records(results).values():
        levels = record["levels"]
        routes = [member["environment"]["route"] for member in record["members"]]
        where = tuple(_is_on(levels["network"], route["own"]) for route in routes)
        seen.add((levels["network"], levels["ends"], where))
    on = {"both": (True, True), "client_only": (True, False), "server_only": (False, True)}
    assert seen == {
        ("host", "both", (False, False)),
        *((network, ends, where) for network in ("bridge", "vxlan") for ends, where in on.items()),
    }
    run = folder(results)
    assert run
    show = [sys.executable, "-m", "analysis", "show", str(run)]
    said = subprocess.run(show, cwd=REPO, capture_output=True, text=True, check=True).stdout
    table = said.split("At which end a network costs it")[1].split("\n\n\n")[0]
    for network in ("bridge", "vxlan"):
        for what in ("Latency", "CPU of both"):
            assert [line for line in table.splitlines() if network in line and what in line], table
    assert lab.left() == {}


def _is_on(network: str, address: str) -> bool:
    """Whether an end with this address of its own is a container on the network."""
    own = ipaddress.IPv4Address(address)
    if network == "vxlan":
        inside = own in ipaddress.IPv4Network("10.214.0.0/16")
        return inside and int(own) % 256 >= MEMBERS
    return own in BRIDGE
