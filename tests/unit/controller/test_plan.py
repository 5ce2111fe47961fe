"""The plan: every valid cell, interleaved, seeded, placed and priced."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from strata import networks
from strata.errors import Refused

from controller import plan
from controller.experiment import Experiment, load

BASE: dict[str, Any] = {
    "name": "t",
    "title": "t",
    "workload": "tf_image_classification",
    "factors": {"runtime": ["native", "docker"], "model": ["tiny", "alexnet"]},
    "options": {"batch_size": 8, "image_size": 96},
    "baseline": {"runtime": "native"},
    "control": False,
    "repeats": 4,
}
HERE = plan.Host("here", "vm", ("native", "docker"), 2)


def make(hosts: list[plan.Host] | None = None, **changes: Any) -> plan.Plan:
    return plan.make(Experiment.model_validate({**BASE, **changes}), hosts or [HERE])


def test_every_cell_in_every_round() -> None:
    made = make()
    cells = [slot.trials[0].cell for slot in made.slots]
    assert len(cells) == 16
    for first in range(0, 16, 4):
        assert len(set(cells[first : first + 4])) == 4


def test_the_baseline_is_measured_a_second_time_in_each_case() -> None:
    """An A/A arm, beside the others in every round; nothing but its label sets it apart."""
    made = make(control=True)
    assert made.baseline == {"runtime": "native", "network": "host", "label": ""}
    assert len(made.slots) == 4 * 6
    for first in range(0, len(made.slots), 3):
        arms = [slot.trials[0].levels for slot in made.slots[first : first + 3]]
        told = {(one["runtime"], one["label"]) for one in arms}
        assert told == {("native", ""), ("docker", ""), ("native", "control")}
        assert len({one["model"] for one in arms}) == 1


@pytest.mark.parametrize(
    "without",
    [
        {"control": False},
        {"repeats": 1},
        {"factors": {**BASE["factors"], "label": ["a", "b"]}},
        {"factors": {**BASE["factors"], "runtime": ["native"]}},
        {"factors": {"model": ["tiny", "alexnet"]}, "baseline": {}},
    ],
)
def test_there_is_no_control_where_it_says_nothing_or_is_not_wanted(
    without: dict[str, Any],
) -> None:
    found = [slot.trials[0].levels["label"] for slot in make(**{"control": True, **without}).slots]
    assert "control" not in found


def test_rounds_are_shuffled_by_the_seed_alone() -> None:
    assert make().identity == make().identity
    assert make().identity != make(seed=2).identity
    order = [slot.trials[0].cell for slot in make(repeats=20).slots]
    rounds = {tuple(order[i : i + 4]) for i in range(0, 80, 4)}
    assert len(rounds) > 5


def test_the_arms_of_a_case_are_side_by_side() -> None:
    made = make(repeats=10)
    assert {slot.block for slot in made.slots} == {"b1"}
    for first in range(0, len(made.slots), 2):
        pair = made.slots[first : first + 2]
        levels = [slot.trials[0].levels for slot in pair]
        assert {one["runtime"] for one in levels} == {"native", "docker"}
        assert len({one["model"] for one in levels}) == 1
        assert [slot.position % 2 for slot in pair] == [1, 0]
        assert pair[0].round == pair[1].round


def test_an_overlay_that_is_expensive_to_switch_is_visited_with_the_baseline_in_each_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("none", "docker_overlay"):
        costly = dataclasses.replace(networks.NETWORKS[name], setting=name)
        monkeypatch.setitem(networks.NETWORKS, name, costly)
    factors = {
        "runtime": ["native", "docker"],
        "network": ["host", "none", "docker_overlay"],
        "model": ["tiny"],
    }
    baseline = {"runtime": "native"}
    made = make(factors=factors, baseline=baseline, repeats=4, visits=2)
    blocks = {slot.block: slot.setting for slot in made.slots}
    assert sorted(blocks.values()) == ["docker_overlay"] * 2 + ["none"] * 2
    for block, setting in blocks.items():
        found = [slot.trials[0].levels for slot in made.slots if slot.block == block]
        seen = {f"{levels['runtime']}/{levels['network']}" for levels in found}
        assert seen == {"native/host", "docker/host", f"docker/{setting}"}
    native = [s for s in made.slots if s.trials[0].levels["runtime"] == "native"]
    assert len({slot.trials[0].trial for slot in native}) == len(native) == 8
    assert made.estimate["programs"] == len(made.slots)


def test_several_workloads_are_measured_in_the_blocks_of_what_they_are_compared_with() -> None:
    """A cell without a setting is in no block in which nothing stands against it."""
    made = make(
        [plan.Host(f"node{n}", "vm", ("native", "docker"), 2) for n in (1, 2)],
        workload="",
        workloads={
            "iperf3": {"factors": {"network": ["host", "vxlan", "macvlan"]}},
            "tf_image_classification": {
                "factors": {"network": ["host", "vxlan"]},
                "options": {"model": "tiny", "distribution": "ring", "workers": 2},
            },
            "spin": {},
        },
        factors={"runtime": ["native", "docker"]},
        options={},
        baseline={"network": "host"},
        exclude=[{"network": "bridge"}],
        repeats=3,
    )
    seen: dict[str, set[tuple[str, ...]]] = {}
    for slot in made.slots:
        levels = slot.trials[0].levels
        names = ("workload", "runtime", "network")
        seen.setdefault(slot.setting, set()).add(tuple(str(levels[name]) for name in names))
    assert Counter(slot.block for slot in made.slots).keys() == {f"b{n}" for n in range(1, 7)}
    training, lone = "tf_image_classification", ("spin", "native", "host")
    assert seen["macvlan"] == {
        *(("iperf3", "docker", "host"), ("iperf3", "docker", "macvlan"), lone),
    }
    assert seen["vxlan"] == {
        lone,
        *((name, runtime, network) for name in ("iperf3", training)
          for runtime in ("native", "docker") for network in ("host", "vxlan")),
    }  # fmt: skip
    assert made.factors == ["runtime", "network", "workload"]
    assert made.estimate["programs"] == sum(
        len(trial.members) for slot in made.slots for trial in slot.trials
    )


NODES = [plan.Host(f"node{n}", "bare_metal", ("docker", "kubernetes"), 8) for n in (1, 2)]
ENDS: dict[str, Any] = {
    "workload": "request_response",
    "factors": {
        "runtime": ["kubernetes"],
        "network": ["host", "flannel_vxlan"],
        "ends": ["both", "client_only", "server_only"],
        "through": ["address", "service"],
    },
    "options": {},
    "exclude": [{"ends": "client_only", "through": "service"}],
    "baseline": {"network": "host", "ends": "both", "through": "address"},
}
IN_DOCKER = {"runtime": ["docker"], "through": ["address"]}


def test_ends_and_a_service_stand_against_both_ends_on_the_hosts_network() -> None:
    """Which has one place for both, and one way: each is one cell there."""
    made = make(NODES, **ENDS)
    names = ("network", "ends", "through")
    assert {tuple(slot.trials[0].levels[name] for name in names) for slot in made.slots} == {
        ("host", "both", "address"),
        *(("flannel_vxlan", one, "address") for one in ("both", "client_only", "server_only")),
        *(("flannel_vxlan", one, "service") for one in ("both", "server_only")),
    }


@pytest.mark.parametrize(
    ("factors", "changes", "words"),
    [
        ({}, {"exclude": []}, "a service leads to the host of a server"),
        ({**IN_DOCKER, "network": ["host", "macvlan"]}, {}, "is no end of macvlan"),
        ({"runtime": ["docker"], "network": ["host", "bridge"]}, {}, "bridge puts no service"),
        ({}, {"baseline": {"network": "host"}}, "ends and through are compared with what they"),
    ],
)
def test_ends_that_cannot_be_are_refused_by_name(
    factors: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        make(NODES, **{**ENDS, "factors": {**ENDS["factors"], **factors}, **changes})


@pytest.mark.parametrize("name", ["", "without_kubernetes", "rehearsal", "rehearsal_kubernetes"])
def test_the_shipped_overlays_are_visited_three_times_beside_their_hosts_network(name: str) -> None:
    runtimes = ("native", "docker", "kubernetes")
    hosts = [plan.Host(f"node{n}", "bare_metal", runtimes, 8) for n in (1, 2)]
    made = plan.make(load(Path("experiments/overlays.yml"), name), hosts)
    blocks: dict[str, set[tuple[str, str]]] = {}
    for slot in made.slots:
        levels = slot.trials[0].levels
        arm = (str(levels["runtime"]), str(levels["network"]))
        blocks.setdefault(f"{slot.setting} {slot.block}", set()).add(arm)
    visits = Counter(block.split()[0] for block in blocks)
    assert set(visits.values()) == {3} and len(visits) >= 4
    for arms in blocks.values():
        assert all((runtime, "host") in arms for runtime, _ in arms)


def test_a_transport_that_cannot_do_what_is_asked_is_no_cell() -> None:
    made = make(
        [plan.Host(f"node{n}", "vm", ("native",), 2) for n in (1, 2)],
        factors={
            "transport": ["strata", "tensorflow", "mpi"],
            "distribution": ["none", "ring", "ps_sync", "ps_async"],
        },
        options={"model": "tiny"},
        baseline={"transport": "strata"},
    )
    levels = [slot.trials[0].levels for slot in made.slots]
    seen = {(str(one["distribution"]), str(one["transport"])) for one in levels}
    modes = ("none", "ring", "ps_sync", "ps_async")  # a lone worker is one cell
    theirs = {("ring", "tensorflow"), ("ps_async", "tensorflow"), ("ring", "mpi")}
    assert seen == {*((mode, "strata") for mode in modes), *theirs}


def test_a_cell_is_named_by_its_levels() -> None:
    trials = [slot.trials[0] for slot in make().slots]
    assert len({trial.cell for trial in trials}) == 4
    assert len({trial.trial for trial in trials}) == 16
    levels = trials[0].levels
    assert {"substrate", "runtime", "network", "label", "batch_size", "dtype", "seed"} <= set(
        levels
    )


def test_the_network_follows_the_runtime_unless_it_is_a_factor() -> None:
    platforms = {
        (s.trials[0].levels["runtime"], s.trials[0].levels["network"]) for s in make().slots
    }
    assert platforms == {("native", "host"), ("docker", "bridge")}
    factors = {**BASE["factors"], "network": ["host", "bridge"]}
    both = {
        (s.trials[0].levels["runtime"], s.trials[0].levels["network"])
        for s in make(factors=factors).slots
    }
    assert both == {("native", "host"), ("docker", "host"), ("docker", "bridge")}


def test_excluded_cells_are_not_run() -> None:
    made = make(exclude=[{"runtime": "docker", "model": ["alexnet"]}])
    found = Counter(
        (s.trials[0].levels["runtime"], s.trials[0].levels["model"]) for s in made.slots
    )
    assert set(found) == {("native", "tiny"), ("native", "alexnet"), ("docker", "tiny")}


def test_a_repetition_of_every_cell_is_on_one_host() -> None:
    hosts = [plan.Host(name, "bare_metal", ("native", "docker"), 2) for name in ("a", "b")]
    where: dict[int, set[str]] = {}
    for slot in make(hosts).slots:
        where.setdefault(slot.trials[0].repetition, set()).update(slot.hosts)
    assert where == {1: {"a"}, 2: {"b"}, 3: {"a"}, 4: {"b"}}


def test_an_empty_design_is_refused() -> None:
    with pytest.raises(Refused, match="the design is empty"):
        make(exclude=[{"runtime": ["native", "docker"]}])


def test_a_missing_group_is_refused() -> None:
    with pytest.raises(Refused, match="needs a host in the inventory group 'docker'"):
        make([plan.Host("here", "vm", ("native",), 2)])
    with pytest.raises(Refused, match="inventory group 'bare_metal'"):
        make(factors={**BASE["factors"], "substrate": ["bare_metal"]})


def test_what_a_host_cannot_do_is_left_out_and_said() -> None:
    host = plan.Host("here", "vm", ("native", "docker"), 2, {"docker": "no root"})
    made = make([host])
    assert {slot.trials[0].levels["runtime"] for slot in made.slots} == {"native"}
    assert made.left_out == [{"what": "docker on vm", "why": "no root"}]
    with pytest.raises(Refused, match="no root"):
        make([host], factors={"runtime": ["docker"], "model": ["tiny"]}, baseline={})


def test_budgets_are_kept() -> None:
    with pytest.raises(Refused, match="more than its time_budget"):
        make(time_budget="10s")
    with pytest.raises(Refused, match="more than its disk_budget"):
        make(disk_budget="1K")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"repeats": 10**9}, "more than its time_budget"),
        ({"repeats": 10**9, "time_budget": "999999999d"}, "more than its disk_budget"),
        (
            {"repeats": 10**9, "time_budget": "999999999d", "disk_budget": "999999T"},
            "starts at most 100000 programs",
        ),
        (
            {"factors": {name: list(range(1, 101)) for name in ("classes", "steps", "seed")}},
            "100 classes x 100 steps x 100 seed = 1000000",
        ),
        ({"factors": {"workers": [10**8], "distribution": ["ring"]}}, "'workers' must be"),
        ({"factors": {"servers": [10**9], "distribution": ["ps_sync"]}}, "'servers' must be"),
        (
            {
                "options": {"workers": 20_000, "servers": 20_000, "placement": "packed"},
                "factors": {"distribution": ["ps_sync"]},
            },
            "has its ports, from 29400 to 65535",
        ),
        (
            {
                "options": {"workers": 30_000, "placement": "packed", "steps": 1},
                "factors": {"distribution": ["ring"]},
                "time_budget": "9999d",
            },
            "starts at most 100000 programs",
        ),
    ],
)
def test_what_is_too_much_is_refused_by_arithmetic(changes: dict[str, Any], words: str) -> None:
    """Laid out, each of them takes gigabytes."""
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match=words):
            make(**changes)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"baseline": {"label": "first"}}, "matches no cell"),
        ({"baseline": {"runtime": "native", "network": "bridge"}}, "{runtime: native, network: "),
        ({"exclude": [{"runtime": "native"}]}, "example: baseline: {runtime: docker, network: "),
        ({"baseline": {"model": "resnet50"}}, "matches no cell"),
        ({"baseline": {}}, "varies runtime, network and has no baseline"),
        (
            {"baseline": {}, "factors": {"label": ["a", "b"], "model": ["tiny"]}},
            "example: baseline: {label: a}",
        ),
    ],
)
def test_a_baseline_that_matches_nothing_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as refused:
        make(**changes)
    assert words in str(refused.value)


UNPINNED = {"runtime": ["native", "kubernetes"], "model": ["tiny"]}


@pytest.mark.parametrize(
    "changes",
    [
        {"factors": {**UNPINNED, "cpus": ["0"]}},
        {"factors": {**UNPINNED, "numa": [0]}},
        {"factors": {**UNPINNED, "beside": ["near"]}, "backgrounds": {"near": {"cpus": "1"}}},
    ],
)
def test_where_the_host_chooses_cpus_none_are_asked_for_by_number(
    changes: dict[str, Any],
) -> None:
    """The program would run on any CPU, and the record would say otherwise."""
    host = plan.Host("here", "vm", ("native", "kubernetes"), 2)
    with pytest.raises(Refused, match=r"exclude \{runtime: kubernetes") as refused:
        make([host], **changes)
    assert "vm/kubernetes/host, {" in refused.value.given
    (name,) = changes["factors"].keys() - UNPINNED.keys()
    left = [{"runtime": "kubernetes", name: changes["factors"][name]}]
    factors = {**changes["factors"], name: [None, *changes["factors"][name]]}
    made = make([host], **{**changes, "factors": factors}, exclude=left)
    assert len({slot.trials[0].cell for slot in made.slots}) == 3


def test_a_pod_has_cpus_of_its_own_where_its_node_gives_them_and_its_memory_is_stated() -> None:
    two = frozenset({0, 1})
    asked = {"factors": UNPINNED, "options": {"cpus": "1", "memory": "1G"}}

    def hosts(*, gives: bool) -> list[plan.Host]:
        given = {"cpus": two, "memory_total": 2**33, "gives_cpus": gives}
        return [plan.Host("here", "vm", ("native", "kubernetes"), 2, **given)]

    assert len({slot.trials[0].cell for slot in make(hosts(gives=True), **asked).slots}) == 2
    with pytest.raises(Refused, match="kubernetes_cpu_manager: static"):
        make(hosts(gives=False), **asked)
    with pytest.raises(Refused, match="2 CPUs beside its own, of 2"):
        make(hosts(gives=True), **{**asked, "options": {"cpus": "0-1", "memory": "1G"}})
    with pytest.raises(Refused, match="which they are is the node's to say"):
        make(hosts(gives=True), **{**asked, "options": {**asked["options"], "quota": 1}})


def test_a_baseline_that_no_host_can_run_is_refused() -> None:
    host = plan.Host("here", "vm", ("native", "docker"), 2, {"docker": "no root"})
    with pytest.raises(Refused, match="matches no cell"):
        make([host], baseline={"runtime": "docker"})


def test_without_sides_there_need_be_no_baseline() -> None:
    assert make(baseline={}, factors={"model": ["tiny", "alexnet"]}).baseline == {}


def test_levels_are_compared_as_they_are_recorded() -> None:
    factors = {"model": ["tiny"], "memory": ["1G", "2G"], "gpus": [["0"], ["1"]]}
    made = make(factors=factors, baseline={"memory": "1G"}, exclude=[{"gpus": ["1"]}])
    assert made.baseline == {"memory": 2**30}
    assert {slot.trials[0].levels["memory"] for slot in made.slots} == {2**30, 2**31}
    assert {tuple(slot.trials[0].levels["gpus"]) for slot in made.slots} == {("0",)}  # type: ignore[arg-type]


def test_a_fixed_runtime_is_not_replaced_by_the_default() -> None:
    made = make(factors={"model": ["tiny"]}, options={"runtime": "docker"}, baseline={})
    assert {slot.trials[0].levels["runtime"] for slot in made.slots} == {"docker"}


def test_memory_is_checked_before() -> None:
    host = plan.Host("here", "vm", ("native", "docker"), 2, memory=2 * 2**30)
    with pytest.raises(Refused, match="not enough memory"):
        make([host], options={**BASE["options"], "memory": "64G"})
    to_be_made = plan.Host("there", "vm", ("native", "docker"), 2, memory_total=2**30)
    with pytest.raises(Refused, match="not enough memory"):
        make([to_be_made])


@pytest.mark.parametrize(
    ("groups", "virtualisation", "substrate"),
    [
        (["vm"], "none", "vm"),
        (["bare_metal"], "kvm", "bare_metal"),
        ([], "kvm", "vm"),
        ([], "none", "bare_metal"),
    ],
)
def test_the_declared_substrate_wins(
    groups: list[str], virtualisation: str, substrate: str
) -> None:
    assert plan.substrate_of(groups, virtualisation) == substrate


# Distributed trials and trials beside a background job.

LAB = [plan.Host(f"n{i}", "vm", ("native", "docker"), 2, address=f"10.0.0.{i}") for i in (1, 2, 3)]


def distributed(**factors: Any) -> plan.Plan:
    factors = {"runtime": ["native"], "model": ["tiny"], **factors}
    return make(LAB, factors=factors, repeats=3)


def test_workers_are_spread_and_every_host_is_first_once() -> None:
    made = distributed(distribution=["ring"], workers=[1, 2, 3])
    three = [slot for slot in made.slots if slot.trials[0].levels["workers"] == 3]
    assert sorted(slot.hosts[0] for slot in three) == ["n1", "n2", "n3"]
    assert all(len(slot.hosts) == len(slot.trials[0].members) == 3 for slot in three)


def test_what_cannot_go_together_is_no_cell() -> None:
    made = distributed(distribution=["none", "ring", "ps_sync"], workers=[1, 2], servers=[1, 2])
    found = {
        tuple(slot.trials[0].levels[n] for n in ("distribution", "workers", "servers"))
        for slot in made.slots
    }
    servers = [("ps_sync", workers, n) for workers in (1, 2) for n in (1, 2)]
    assert found == {("none", 1, 0), ("ring", 1, 0), ("ring", 2, 0), *servers}


def test_too_few_hosts_leave_a_cell_out_and_it_is_said() -> None:
    made = distributed(distribution=["ring"], workers=[2, 4])
    assert [item["what"] for item in made.left_out] == ["native on vm with 4 workers"]
    assert (
        "4 such hosts are needed, one for each worker, and there are 3" in made.left_out[0]["why"]
    )


def test_packed_workers_share_a_host() -> None:
    made = distributed(distribution=["ps_async"], workers=[4], placement=["packed", "together"])
    assert all(len(slot.hosts) == 1 for slot in made.slots)
    assert {len(slot.trials[0].members) for slot in made.slots} == {5}


def beside(**changes: Any) -> plan.Plan:
    factors = {"runtime": ["native", "docker"], "model": ["tiny"], "beside": [None, "neighbour"]}
    jobs = {"neighbour": {"cpus": "1"}}
    return make(**{"factors": factors, "backgrounds": jobs, **changes})


def test_a_background_job_is_part_of_the_slot_and_of_the_cell() -> None:
    pairs = [slot.trials for slot in beside().slots if len(slot.trials) == 2]
    assert len(pairs) == 8
    for measured, background in pairs:
        assert (measured.role, background.role) == ("measured", "background")
        assert background.trial == f"{measured.trial}-beside"
        assert background.levels["runtime"] == measured.levels["runtime"]
        options = ("model", "batch_size", "cpus")
        assert [background.levels[n] for n in options] == ["alexnet", 512, "1"]
    other = beside(backgrounds={"neighbour": {"cpus": "0"}})
    cells = {t[0].cell for t in pairs}
    assert not cells & {s.trials[0].cell for s in other.slots if len(s.trials) == 2}


FILES: dict[str, Any] = {
    "workload": "dd",
    "options": {},
    "factors": {"runtime": ["native", "docker"], "storage": ["disk", "volume", "layer", "tmpfs"]},
    "baseline": {"runtime": "native", "storage": "disk"},
}


def test_a_runtime_has_its_own_places_for_files() -> None:
    made = make(**FILES)
    arms = {
        (slot.trials[0].levels["runtime"], slot.trials[0].levels["storage"]) for slot in made.slots
    }
    assert arms == {
        *(("native", place) for place in ("disk", "tmpfs")),
        *(("docker", place) for place in ("disk", "volume", "layer", "tmpfs")),
    }
    assert len(made.slots) == 6 * BASE["repeats"]
    assert {slot.trials[0].scratch for slot in made.slots} == {True}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"factors": {"storage": ["volumes"]}}, "did you mean volume"),
        ({"factors": {"runtime": ["native"]}, "options": {"storage": "layer"}}, "storage that"),
    ],
)
def test_a_place_that_is_not_there_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        make(**{**FILES, "baseline": {}, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"factors": {"distribution": ["rings"]}}, "did you mean 'ring'"),
        ({"factors": {"distribution": ["ring"], "workers": [0]}}, "whole number, more than 0"),
        ({"factors": {"distribution": ["ring"], "workers": ["2"]}}, "whole number, more than 0"),
        ({"factors": {"quota": [-1.0]}}, "number of CPUs, more than 0"),
        ({"factors": {"beside": ["neighbor"]}}, "did you mean 'neighbour'"),
        ({"backgrounds": {"neighbour": {"workload": "spinn"}}}, "unknown workload 'spinn'"),
        ({"backgrounds": {"neighbour": {"options": {"modle": "x"}}}}, "did you mean model"),
        ({"backgrounds": {"neighbour": {"workload": "dd", "options": {}}}}, "until it is told to"),
        ({"workload": "spin", "options": {}, "factors": {"distribution": ["ring"]}}, "cannot be"),
    ],
)
def test_bad_scenarios_are_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    given = {**BASE, "backgrounds": {"neighbour": {}}, **changes}
    (tmp_path / "t.yml").write_text(json.dumps(given))
    with pytest.raises(Refused, match=words):
        load(tmp_path / "t.yml")


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ({"of": {"runtime": "native"}, "within": 0.1}, "which are 0 arms"),
        ({"of": {"model": "tiny"}, "within": 0.1}, "which are 2 arms"),
        ({"of": {"runtime": "docker"}, "within": 0.1, "metric": "elapsd"}, "'elapsed'"),
    ],
)
def test_a_rule_that_names_no_one_comparison_is_refused(stop: dict[str, Any], words: str) -> None:
    factors = {**BASE["factors"], "network": ["host", "bridge"]}
    with pytest.raises(Refused) as refused:
        make(factors=factors if "metric" not in stop else BASE["factors"], stop=stop)
    assert words in str(refused.value)
