"""The plan: every valid cell, interleaved, seeded, placed and priced."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from strata import plan
from strata.errors import Refused
from strata.experiment import Experiment

BASE: dict[str, Any] = {
    "name": "t",
    "title": "t",
    "workload": "tf_image_classification",
    "factors": {"runtime": ["native", "docker"], "model": ["tiny", "alexnet"]},
    "options": {"batch_size": 8, "image_size": 64},
    "baseline": {"runtime": "native"},
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


def test_rounds_are_shuffled_by_the_seed_alone() -> None:
    assert make().identity == make().identity
    assert make().identity != make(seed=2).identity
    order = [slot.trials[0].cell for slot in make(repeats=20).slots]
    rounds = {tuple(order[i : i + 4]) for i in range(0, 80, 4)}
    assert len(rounds) > 5


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


def test_memory_is_checked_before() -> None:
    host = plan.Host("here", "vm", ("native", "docker"), 2, memory=2 * 2**30)
    with pytest.raises(Refused, match="not enough memory"):
        make([host], options={**BASE["options"], "memory": "64G"})


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
