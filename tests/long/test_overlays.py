"""Every network that can be had here in one run, and each directly after each other one. Hours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis import carryover, ends, overlays, tables
from analysis.load import load
from tests.cluster import lab
from tests.conftest import REPO
from tests.integration.lab import folder
from tools import kubernetes_offline

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]

OVERLAYS = {"vxlan", "docker_overlay", "flannel_vxlan", "calico", "cilium"}
IN_USER_SPACE = {"wireguard_go", "flannel_udp"}
SETTINGS = {*OVERLAYS, *IN_USER_SPACE, "macvlan", "flannel_host_gw"}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Cluster]:
    """Two nodes that are Docker hosts and those of a cluster."""
    inventory = tmp_path_factory.mktemp("lab") / "inventory"
    with lab.made(inventory, *kubernetes_offline.BUNDLES, more=("docker",)) as cluster:
        yield cluster


def run_of(nodes: lab.Cluster, experiment: str, slice_name: str, results: Path) -> Path:
    """The folder of a run of which every trial ended well, every switch was proven, both ways."""
    asked = f"-estrata_slice={slice_name}"
    records = nodes.site(experiment, results, asked, at=REPO / "experiments")
    assert {record["status"] for record in records} == {"ok"}
    run = folder(results)
    assert run
    said = Counter(event["event"] for event in events(run))
    assert said["setting_begun"] == said["setting_proven"] == said["setting_left"]
    return run


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]


def visited(run: Path) -> list[str]:
    return [event["setting"] for event in events(run) if event["event"] == "setting_proven"]


def test_all_of_them_in_random_order_beside_the_hosts(nodes: lab.Cluster, tmp_path: Path) -> None:
    """Ten of them, visited three times. What runs in user space is slower by a multiple, which no
    load of this machine hides; the hosts' own network beside itself differs by chance."""
    run = run_of(nodes, "overlays", "rehearsal_kubernetes", tmp_path / "results")
    assert Counter(visited(run)) == dict.fromkeys(SETTINGS, 3)
    assert (run / "report/index.html").is_file()
    found = tables.build(load(run))
    metric = found.loaded.metrics.column("iperf3", "throughput")
    of = found.overall[found.overall["metric"] == metric]
    for row in tables.records(of):
        print(
            f"\n{row['short']} {row['ratio']:.3f} ({row['ratio_low']:.3f} {row['ratio_high']:.3f})"
        )
    reached = {
        name: of.loc[of["short"].str.endswith(f"/{name}"), "ratio"].max() for name in SETTINGS
    }
    slow = max(reached[network] for network in IN_USER_SPACE)
    assert slow < 0.3
    assert all(reached[network] > 2 * slow for network in SETTINGS - IN_USER_SPACE)
    leads = list(found.loaded.metrics.leads)
    same = found.overall[found.overall["is_control"] & found.overall["metric"].isin(leads)]
    print(same[["metric", "ratio", "ratio_low", "ratio_high", "p"]])
    assert len(same) and same["p"].min() > 0.001, "host against host under two labels"


def test_each_directly_after_each_other_one(nodes: lab.Cluster, tmp_path: Path) -> None:
    run = run_of(nodes, "overlays_balanced", "rehearsal", tmp_path / "results")
    pairs = Counter(pairwise(visited(run)))
    assert pairs == {(a, b): 1 for a in SETTINGS for b in SETTINGS if a != b}
    found = tables.build(load(run))
    by = carryover.visits(found.loaded)
    metric = found.loaded.metrics.column("iperf3", "throughput")
    told = carryover.carried(found.trials, by, metric)
    assert told and told.visits == len(pairs)
    print(told)
    assert told.p > 0.001, "what is measured depends on what was there before"
    assert "What a network leaves to the next" in {t.title for t in overlays.tables(found)}


def test_at_which_end_a_network_costs_what(nodes: lab.Cluster, tmp_path: Path) -> None:
    """With policies that are enforced, too, a program on a host's own network is an end."""
    run = run_of(nodes, "wire_ends", "rehearsal_kubernetes", tmp_path / "results")
    found = tables.build(load(run))
    networks = {part.network for part in ends.parts(found)}
    assert networks == {"flannel_vxlan", "calico", "cilium"}
    for row in ends.rows(found):
        print(row)


def test_what_the_packet_filters_rules_cost(nodes: lab.Cluster, tmp_path: Path) -> None:
    run = run_of(nodes, "packet_filter", "rehearsal_kubernetes", tmp_path / "results")
    records = [json.loads(path.read_text()) for path in run.rglob("record.json")]
    seen = [(each["levels"]["network"], each["workload"]["environment"]) for each in records]
    met = {(network, found["packet_filter"]["tracked"]) for network, found in seen}
    assert met == {("host", True), ("host_unfiltered", False)}
    found = tables.build(load(run))
    print(found.overall[["short", "metric", "ratio", "ratio_low", "ratio_high", "p"]])
    assert (run / "report/index.html").is_file()
