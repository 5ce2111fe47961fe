"""What a setting leaves to the next: planted effects are found, and chance is told from them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest

from analysis import carryover
from analysis.carryover import Visit
from controller import blocks

SETTINGS = ["calico", "flannel_udp", "flannel_vxlan", "vxlan", "wireguard_go"]
OWN = {setting: -0.3 * number for number, setting in enumerate(SETTINGS)}


def shown(
    left: Mapping[str, float], noise: float, seed: int, settings: list[str] = SETTINGS
) -> dict[Visit, float]:
    """What the visits of a balanced order show, where a setting leaves `left` to the next."""
    order = random.Random(seed)
    walk = pairwise(blocks.circuit(settings, order))
    return {
        Visit(number, now, before): OWN[now] + left.get(before, 0.0) + order.gauss(0, noise)
        for number, (before, now) in enumerate(walk)
    }


def test_what_is_planted_is_found_whatever_the_settings_are_worth_themselves() -> None:
    found = carryover.fitted(shown({"calico": math.log(0.5)}, 1e-6, 1))
    assert found is not None and found.visits == 20
    assert found.after["calico"].mean - found.after["vxlan"].mean == pytest.approx(math.log(0.5))
    assert sum(one.mean for one in found.after.values()) == pytest.approx(0, abs=1e-9)
    assert found.p < 1e-6


def test_where_nothing_is_left_it_is_said_as_often_as_chance_allows() -> None:
    """600 runs without any effect: p is below 0.05 in a twentieth, and intervals hold zero."""
    told = [carryover.fitted(shown({}, 0.05, seed)) for seed in range(600)]
    chances = [one.p for one in told if one]
    assert len(chances) == 600
    assert 0.025 < np.mean(np.array(chances) < 0.05) < 0.08
    held = [e.low <= 0 <= e.high for one in told if one for e in one.after.values()]
    assert 0.93 < np.mean(held) < 0.97


def test_a_small_effect_is_found_in_most_runs() -> None:
    told = [carryover.fitted(shown({"calico": 0.15}, 0.05, seed)) for seed in range(100)]
    assert sum(one.p < 0.05 for one in told if one) > 90


@pytest.mark.parametrize("settings", [["vxlan"], ["vxlan", "calico"]])
def test_visits_that_cannot_tell_have_no_answer(settings: list[str]) -> None:
    """With two, each always follows the other: its effect is the other's own."""
    assert carryover.fitted(shown({}, 0.01, 1, settings)) is None


def test_visits_of_a_random_order_tell_as_well() -> None:
    """Three sweeps, as `visits: 3` gives: fewer figures, and the same answer."""
    order = random.Random(1)
    walk = [setting for setting, _ in blocks.sweeps(SETTINGS, 3, 3, order)]
    left = {"calico": 0.5}
    found = carryover.fitted(
        {
            Visit(number, now, before): OWN[now] + left.get(before, 0.0) + order.gauss(0, 0.01)
            for number, (before, now) in enumerate(pairwise(walk))
        }
    )
    assert found is not None and found.p < 0.01
    assert found.after["calico"].low > 0.3
