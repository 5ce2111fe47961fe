"""A machine whose speed moves: whether verdicts hold there, from the controller's plan to tables.

The small version of `benchmarks/inference.py`, whose table stands in docs/statistics.md. Seeded.
"""

from __future__ import annotations

import numpy as np
import pytest

from analysis import matching
from benchmarks import inference
from benchmarks.inference import Tally, World

RUNS = 14  # of sixteen comparisons each
QUIET = World("independent noise")
DRIFT = World("drift 20 %, 10 trials", drift=0.2, fading=10)


@pytest.mark.parametrize("world", [QUIET, DRIFT], ids=lambda world: str(world.name))
def test_verdicts_hold_where_nothing_differs_and_what_is_printed_as_seen_is_seen(
    world: World,
) -> None:
    """224 comparisons have a standard error of 1.5 % at 5 %."""
    tally = inference.run(world, RUNS, seed=1)
    assert len(tally.seen["case false"]) == 16 * RUNS
    assert tally.mean("case false") <= 0.08
    assert tally.mean("case covered") >= 0.92
    assert tally.mean("case found") >= 0.8
    assert tally.mean("all found 10") >= 0.9


def test_pairs_are_narrower_than_trials_without_rounds_where_the_machine_drifts() -> None:
    tally = inference.run(DRIFT, 4, seed=2)
    assert tally.median("case width") < 0.6 * tally.median("unpaired width")


def test_a_run_folder_says_the_same_as_a_frame() -> None:
    world = World("all", drift=0.2, step=1.5, tenants=0.1, hosts=2)
    made = inference.planned(world, 1)
    rates = world.rates(made.slots, np.random.default_rng(1))
    answers = []
    for way in (inference.in_a_folder, inference.in_a_frame):
        tally = Tally()
        single, _ = inference.judged(matching.assign(way(made, rates)))
        inference._count(tally, "case", single)
        answers.append(tally.seen)
    assert answers[0] == answers[1]
    assert len(answers[0]["case seen"]) == 16
