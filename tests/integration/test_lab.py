"""The papers' scenarios on a lab of two nodes: one host, several, and beside a neighbour."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strata.host import lease

from .lab import Lab, cells, folder, journal, planned, records

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image, pytest.mark.lab]


def changed(output: str) -> dict[str, int]:
    """The changed tasks of each host in the recap."""
    lines = [line for line in output.split("PLAY RECAP")[1].splitlines() if "changed=" in line]
    return {line.split()[0]: int(line.split("changed=")[1].split()[0]) for line in lines}


def failures(results: Path) -> dict[str, Any]:
    return {name: r["reason"] for name, r in records(results).items() if r["status"] != "ok"}


def test_closer2018_in_small(lab: Lab, tmp_path: Path) -> None:
    results = tmp_path / "results"
    lab.site("closer2018", results, "-estrata_slice=rehearsal")
    for node in lab.nodes:
        held = lab.shell(node, "ls /var/lib/strata/images").split()
        families = sorted(name.partition("-")[0] for name in held)
        assert families == ["python", "tensorflow"], "one of each, and none that carried it"
    assert failures(results) == {} and cells(results) == planned(results)
    several = [r for r in records(results).values() if r["members"]]
    assert {r["platform"] for r in several} == {
        "bare_metal/native/host",
        "bare_metal/docker/host",
        "bare_metal/docker/bridge",
        "bare_metal/docker/docker_overlay",
    }
    for record in several:
        assert [(m["role"], m["host"]) for m in record["members"]] == [
            ("worker", "node1"),
            ("worker", "node2"),
            ("server", "node1"),
        ]
        metrics = {name: metric["value"] for name, metric in record["metrics"].items()}
        # How near to it is a matter of what else the machine does.
        assert 0 < metrics["goodput"] < 130e6, "the link has 125e6"
        assert metrics["limit"] > 0 and metrics["throughput"] > 0
        assert abs(record["members"][1]["cluster"]["clock_error_s"]) < 0.05
    run = folder(results)
    assert run and "How near the link" in (run / "report/index.html").read_text()
    assert lab.left() == {}
    # A second deploy changes nothing, and check mode is clean.
    given = ("closer2018", results, "-estrata_slice=rehearsal", "--tags=provision,deploy")
    again = changed(lab.site(*given).stdout)
    assert set(again) >= {"localhost", "node1", "node2"}
    assert set(again.values()) == {0}
    assert set(changed(lab.site(*given, "--check").stdout).values()) == {0}


def test_a_neighbour_runs_beside_the_whole_window(lab: Lab, tmp_path: Path) -> None:
    results = tmp_path / "results"
    lab.site("closer2018_shared", results, "-estrata_slice=rehearsal")
    assert failures(results) == {} and cells(results) == planned(results)
    beside = [r["beside"] for r in records(results).values() if r["beside"]]
    assert len(beside) == 4
    assert all(0.95 <= one["overlap"] <= 1.001 and one["rate"]["value"] > 0 for one in beside)
    assert lab.left() == {}


def test_accounts_without_rights_train_alone_and_together(
    lab: Lab, apptainer: None, tmp_path: Path
) -> None:
    """With Apptainer: alone, in a ring and by MPI, on the hosts' network and on VXLAN."""
    results = tmp_path / "results"
    lab.site("without_rights", results)
    assert failures(results) == {} and cells(results) == planned(results)
    found = list(records(results).values())
    together = [record for record in found if record["members"]]
    assert {record["platform"] for record in found} == {
        f"bare_metal/apptainer/{network}" for network in ("host", "vxlan")
    }
    seen = {(record["levels"]["workload"], record["levels"]["network"]) for record in together}
    assert seen == {
        (workload, network)
        for workload in ("tf_image_classification", "all_reduce")
        for network in ("host", "vxlan")
    }
    for record in together:
        assert [member["host"] for member in record["members"]] == lab.nodes
        by_mpi = [bool(member["environment"].get("mpi")) for member in record["members"]]
        assert by_mpi == 2 * [record["levels"]["transport"] == "mpi"]
        weights = {member["cluster"]["weights"] for member in record["members"]}
        assert len(weights) == 1, "they share what they have learnt"
        assert record["metrics"]["goodput"]["value"] > 0
    proven = [one["setting"] for one in journal(results) if one["event"] == "setting_proven"]
    assert proven == ["vxlan"]
    run = folder(results)
    assert run
    for node in lab.nodes:
        told = json.loads((run / f"hosts/{node}.json").read_text())["values"]
        # Nodes have no /dev/fuse: it starts from the image that native programs have.
        assert told["apptainer.image"] == "sandbox" and told["apptainer.version"][0].isdigit()
        assert lab.shell(node, "ls -d /var/lib/strata/apptainer", check=False) == ""
    assert lab.left() == {}
    again = changed(lab.site("without_rights", results, "--tags=provision,deploy").stdout)
    assert set(again) >= set(lab.nodes) and set(again.values()) == {0}


@pytest.mark.second_lab
def test_a_client_and_a_server_on_two_hosts_and_on_one_over_every_network(
    lab: Lab, tmp_path: Path
) -> None:
    """UDP needs a port of each protocol, with one number, wherever the server stands."""
    results = tmp_path / "results"
    lab.site("wire", results, "-estrata_slice=rehearsal")
    assert failures(results) == {} and cells(results) == planned(results)
    seen = set()
    for record in records(results).values():
        levels = record["levels"]
        client, server = record["members"]
        assert (client["role"], server["role"]) == ("client", "server")
        apart = client["host"] != server["host"]
        assert apart == (levels["placement"] == "spread")
        seen.add((record["platform"], apart, levels["protocol"]))
        metrics = {name: metric["value"] for name, metric in record["metrics"].items()}
        assert metrics["throughput"] > 0 and metrics["host_cpu_server"] > 0
        assert ("loss" in metrics, "retransmits" in metrics) == (
            (True, False) if levels["protocol"] == "udp" else (False, True)
        )
        # By container, the packets left by its own device; on the overlay it is smaller.
        routes = [member["environment"]["route"] for member in record["members"]]
        native = levels["network"] == "host"
        assert all((route["device"] == "lo") == (native and not apart) for route in routes)
        if levels["network"] == "docker_overlay":
            assert {route["mtu"] for route in routes} == {1450}
    platforms = ("native/host", "docker/host", "docker/bridge", "docker/docker_overlay")
    assert seen == {
        (f"bare_metal/{platform}", apart, protocol)
        for platform in platforms
        for apart in (True, False)
        for protocol in ("tcp", "udp")
    }
    run = folder(results)
    assert run
    fingerprint = json.loads((run / "hosts/node1.json").read_text())["values"]
    assert fingerprint["nic.eth0.mtu"] == 1500 and "tso" in fingerprint["nic.eth0.offloads"]
    assert lab.left() == {}


@pytest.fixture
def builder() -> Iterator[dict[str, Any]]:
    """A run on another testbed that builds on this controller, and lives for a while."""
    with subprocess.Popen(["sleep", "600"]) as process:
        holder = lease.process(process.pid)
        lease.acquire("builds", holder, use=lease.BUILD)
        try:
            yield holder
        finally:
            lease.release("builds", holder)
            process.kill()


def test_runs_on_two_testbeds_take_turns_at_building(
    lab: Lab, tmp_path: Path, builder: dict[str, Any]
) -> None:
    """Each has a node; both wait, in words, for one that builds, and both then run."""
    given = ("spin", "-estrata_slice=native")
    runs = [
        lab.begin(given[0], tmp_path / node, given[1], f"--limit={node},localhost")
        for node in lab.nodes
    ]
    for run in runs:
        run.until_said("localhost is held by another run: run builds, which builds")
        run.until_said("it is waited for, at most 1 h")
    lease.release("builds", builder)
    assert [run.end() for run in runs] == [0, 0], [run.text()[-3000:] for run in runs]
    for node in lab.nodes:
        assert {record["hosts"][0] for record in records(tmp_path / node).values()} == {node}
    assert lab.left() == {} and lease.current() is None


def test_a_stage_that_fails_on_the_controller_lets_go_of_every_host(
    lab: Lab, tmp_path: Path, builder: dict[str, Any]
) -> None:
    done = lab.site("spin", tmp_path, "-elease_patience_s=0", check=False)
    assert done.returncode != 0
    assert "run builds, which builds" in done.stdout
    assert "No host is held any more" in done.stdout
    assert lab.left() == {}, "the nodes had been taken already, or were about to be"
