"""The order of a plan: blocks by setting, rounds, cases, arms side by side."""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby, pairwise

import pytest

from controller import blocks
from controller.blocks import Arm, Turn

FREE = [Arm(f"{network}-{case}", "", case) for case in "xy" for network in ("host", "bridge")]
SETTINGS = ("flannel", "calico", "wg")
BOUND = [Arm(f"{name}-{case}", name, case) for case in "xy" for name in SETTINGS]


def made(arms: list[Arm[str]], repeats: int = 6, visits: int = 3, seed: int = 1) -> list[Turn[str]]:
    return blocks.schedule(arms, repeats, visits, random.Random(seed))


def visited(turns: list[Turn[str]]) -> list[str]:
    """The setting of each block, in order."""
    return [setting for (_, setting), _ in groupby(turns, lambda turn: (turn.block, turn.setting))]


def test_the_same_seed_gives_the_same_order_and_another_another() -> None:
    assert made(FREE + BOUND) == made(FREE + BOUND)
    assert made(FREE + BOUND) != made(FREE + BOUND, seed=2)


def test_without_settings_there_is_one_block_with_all_rounds() -> None:
    turns = made(FREE)
    assert visited(turns) == [""]
    assert {turn.round for turn in turns} == set(range(1, 7))
    assert Counter(turn.cell for turn in turns) == {arm.cell: 6 for arm in FREE}


@pytest.mark.parametrize("seed", range(20))
def test_every_setting_is_visited_several_times_and_never_twice_in_a_row(seed: int) -> None:
    order = visited(made(FREE + BOUND, seed=seed))
    assert Counter(order) == {"flannel": 3, "calico": 3, "wg": 3}
    assert all(one != other for one, other in pairwise(order))
    sweeps = [set(order[n : n + 3]) for n in (0, 3, 6)]
    assert sweeps == [{"flannel", "calico", "wg"}] * 3, "each sweep has every setting once"


def test_the_order_of_the_visits_is_random() -> None:
    assert len({tuple(visited(made(BOUND, seed=seed))) for seed in range(20)}) > 1


def test_a_cell_with_a_setting_has_its_repeats_and_one_without_is_in_every_round() -> None:
    turns = made(FREE + BOUND, repeats=5)
    counts = Counter(turn.cell for turn in turns)
    assert all(counts[arm.cell] == 5 for arm in BOUND)
    assert all(counts[arm.cell] == 15 for arm in FREE)
    rounds = {(turn.block, turn.round) for turn in turns}
    for arm in FREE:
        assert {(turn.block, turn.round) for turn in turns if turn.cell == arm.cell} == rounds


def test_a_block_has_no_cell_of_another_setting() -> None:
    settings = {arm.cell: arm.setting for arm in FREE + BOUND}
    assert all(settings[turn.cell] in ("", turn.setting) for turn in made(FREE + BOUND))


def test_the_arms_of_a_case_are_side_by_side_in_every_round() -> None:
    turns = made(FREE + BOUND)
    for _, found in groupby(turns, lambda turn: (turn.block, turn.round)):
        cases = [turn.cell[-1] for turn in found]
        assert cases in (["x"] * 3 + ["y"] * 3, ["y"] * 3 + ["x"] * 3)


def test_cases_and_arms_change_their_places() -> None:
    turns = made(FREE, repeats=30)
    firsts = {turn.cell for turn in turns if turn.position == 1}
    assert firsts == {arm.cell for arm in FREE}


def test_repetitions_count_a_cell_through_the_whole_plan() -> None:
    turns = made(FREE + BOUND)
    for arm in FREE + BOUND:
        own = [turn.repetition for turn in turns if turn.cell == arm.cell]
        assert own == list(range(1, len(own) + 1))


def test_everything_in_a_round_is_in_one_sweep() -> None:
    turns = made(FREE + BOUND)
    sweeps = {(turn.block, turn.round): turn.sweep for turn in turns}
    assert all(sweeps[turn.block, turn.round] == turn.sweep for turn in turns)
    assert sorted(sweeps.values()) == list(range(1, len(sweeps) + 1))


@pytest.mark.parametrize(
    ("repeats", "visits", "expected"),
    [(5, 3, [2, 2, 1]), (3, 3, [1, 1, 1]), (2, 3, [1, 1]), (1, 9, [1]), (7, 1, [7])],
)
def test_repetitions_are_spread_over_visits(repeats: int, visits: int, expected: list[int]) -> None:
    assert blocks.shares(repeats, visits) == expected


def test_repeats_are_spread_over_rebuilds_and_settings_are_visited_on_each() -> None:
    turns = blocks.schedule(FREE, 7, 3, random.Random(1), rebuilds=3)
    rounds = {(turn.rebuild, turn.block, turn.round) for turn in turns}
    assert Counter(rebuild for rebuild, *_ in rounds) == {1: 3, 2: 2, 3: 2}
    assert len({block for _, block, _ in rounds}) == 3, "a block for each"
    assert sorted(turn.repetition for turn in turns if turn.cell == "host-x") == list(range(1, 8))

    turns = blocks.schedule(FREE + BOUND, 6, 3, random.Random(1), rebuilds=3)
    visits = {(turn.rebuild, turn.block, turn.setting) for turn in turns}
    assert Counter((rebuild, setting) for rebuild, _, setting in visits) == {
        (rebuild, setting): 1 for rebuild in (1, 2, 3) for setting in ("flannel", "calico", "wg")
    }


def test_a_testbed_that_is_built_once_has_no_rebuilds() -> None:
    assert {turn.rebuild for turn in made(FREE + BOUND)} == {0}


@pytest.mark.parametrize("seed", range(20))
def test_a_balanced_order_has_each_setting_after_each_other_one_once(seed: int) -> None:
    turns = blocks.schedule(FREE + BOUND, 4, "balanced", random.Random(seed))
    order = visited(turns)
    assert Counter(pairwise(order)) == {
        (one, other): 1 for one in SETTINGS for other in SETTINGS if one != other
    }
    counts = Counter(turn.cell for turn in turns)
    began = order[0]
    assert all(counts[arm.cell] == (6 if arm.setting == began else 4) for arm in BOUND)


def test_a_balanced_order_has_a_round_in_each_visit() -> None:
    turns = blocks.schedule(FREE + BOUND, 1, "balanced", random.Random(1))
    assert len(visited(turns)) == 7
    assert {turn.round for turn in turns} == {1}
    (alone,) = {
        turn.setting for turn in blocks.schedule(BOUND[:1], 2, "balanced", random.Random(1))
    }
    assert alone == "flannel"
