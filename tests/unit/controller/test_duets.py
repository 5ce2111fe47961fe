"""Duets in the plan: who is beside whom, on which half, and what cannot be one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
from strata import networks, runtimes
from strata.errors import Refused
from strata.members import SECOND_PLACES, place
from test_plan import BASE

from controller import plan
from controller.experiment import Experiment

HALVED = ((0,), (1,))
HERE = plan.Host("here", "vm", ("native", "docker"), 2, siblings=HALVED)
DUET = {**BASE, "design": "duet", "control": True}


def make(*hosts: plan.Host, **changes: Any) -> plan.Plan:
    return plan.make(Experiment.model_validate({**DUET, **changes}), list(hosts or [HERE]))


def names(slot: plan.Slot) -> tuple[str, ...]:
    return tuple(f"{t.levels['runtime']} {t.levels['label']}".strip() for t in slot.trials)


def test_each_arm_is_beside_its_baseline_and_beside_itself() -> None:
    made = make()
    assert len(made.slots) == 4 * 2 * 3
    for first in range(0, len(made.slots), 3):
        case = made.slots[first : first + 3]
        assert len({trial.levels["model"] for slot in case for trial in slot.trials}) == 1
        assert {tuple(sorted(names(slot))) for slot in case} == {
            ("docker", "native"), ("docker", "docker control"), ("native", "native control"),
        }  # fmt: skip
    trials = [trial.trial for slot in made.slots for trial in slot.trials]
    assert len(set(trials)) == len(trials), "each turn of a cell is another repetition"
    assert made.estimate["programs"] == len(trials)


def test_the_halves_are_swapped_from_round_to_round() -> None:
    seen: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for slot in make(repeats=6).slots:
        assert [trial.side for trial in slot.trials] == [1, 2]
        case = (str(slot.trials[0].levels["model"]), *sorted(names(slot)))
        seen.setdefault(case, []).append(names(slot))
    for own in seen.values():
        assert own[0] == own[2] == own[4] == tuple(reversed(own[1]))
        assert Counter(own) == {own[0]: 3, own[1]: 3}
    begins = {own[0] == tuple(sorted(own[0])) for own in seen.values()}
    assert begins == {True, False}, "the seed says who begins"


def test_the_plan_is_the_same_before_its_host_was_looked_at() -> None:
    unknown = dataclasses.replace(HERE, siblings=None)
    assert make(unknown).identity == make().identity
    assert make(seed=2).identity != make().identity


def test_without_a_control_only_what_is_asked_is_measured() -> None:
    found = {tuple(sorted(names(slot))) for slot in make(control=False).slots}
    assert found == {("docker", "native")}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {**BASE["options"], "cpus": "0"}}, "belong to the slot"),
        ({"options": {**BASE["options"], "gpus": ["0"]}}, "cannot be halved"),
        (
            {"options": {**BASE["options"], "beside": "n"}, "backgrounds": {"n": {}}},
            "it has 'n' beside it",
        ),
        (
            {"options": {**BASE["options"], "distribution": "ring", "workers": 2,
                         "placement": "packed"}},
            "2 members take part",
        ),
        ({"workload": "make_images", "options": {},
          "factors": {"runtime": ["native", "docker"]}}, "no steps"),
        ({"exclude": [{"runtime": "native", "model": "tiny"}]}, "no baseline"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_side_by_side_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match="in a duet two arms") as refused:
        make(**changes)
    assert words in refused.value.given
    assert "design: pairs" in str(refused.value)


def test_arms_that_need_unlike_settings_are_no_duet(monkeypatch: pytest.MonkeyPatch) -> None:
    costly = dataclasses.replace(networks.NETWORKS["bridge"], setting="bridge")
    monkeypatch.setitem(networks.NETWORKS, "bridge", costly)
    with pytest.raises(Refused, match="a host has one at a time"):
        make()


def test_a_runtime_that_pins_nothing_is_no_arm_of_a_duet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes.docker, "PINS", False, raising=False)
    with pytest.raises(Refused, match="docker does not hold a program to a CPU set"):
        make()
    assert not runtimes.pins("kubernetes") and runtimes.pins("native")


def test_a_host_without_equal_halves_is_refused_by_name() -> None:
    odd = dataclasses.replace(HERE, name="odd", cores=3, siblings=((0,), (1,), (2,)))
    with pytest.raises(Refused, match="odd, its CPUs by core: 0 1 2"):
        make(odd)


def test_two_on_one_network_of_a_setting_have_addresses_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = dataclasses.replace(networks.NETWORKS["bridge"], peers="place")
    monkeypatch.setitem(networks.NETWORKS, "bridge", given)
    places = {"here": {"host": "10.0.0.1", "members": "10.0.1.0"}}
    slot = next(slot for slot in make().slots if "docker control" in names(slot))
    trials = [dataclasses.asdict(trial) for trial in slot.trials]
    found = [place(trial, trial["members"][0], places) for trial in trials]
    assert found == ["10.0.1.0", f"10.0.1.{SECOND_PLACES}"]
