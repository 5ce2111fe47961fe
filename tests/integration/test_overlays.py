"""Networks that are switched to, on a lab of two nodes: each is made, proven, measured and left."""

from __future__ import annotations

from pathlib import Path

import pytest

from .lab import Lab, cells, journal, planned, records

pytestmark = [
    *(pytest.mark.root, pytest.mark.docker, pytest.mark.image),
    *(pytest.mark.lab, pytest.mark.second_lab),
]
SETTINGS = {"vxlan", "macvlan", "docker_overlay", "wireguard_go"}


def test_every_network_is_proven_measured_and_left(lab: Lab, tmp_path: Path) -> None:
    """Left means: the network of each node is as it was, which the run itself compares."""
    results = tmp_path / "results"
    lab.site("overlays", results)
    assert cells(results) == planned(results)
    found = records(results).values()
    assert {record["platform"] for record in found} == {
        "bare_metal/native/host",
        *(f"bare_metal/{name}" for name in ("native/vxlan", "native/wireguard_go")),
        *(f"bare_metal/docker/{name}" for name in ("vxlan", "macvlan", "docker_overlay")),
    }
    for event in ("begun", "proven", "left"):
        told = [one["setting"] for one in journal(results) if one["event"] == f"setting_{event}"]
        assert sorted(told) == sorted(SETTINGS), event
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
