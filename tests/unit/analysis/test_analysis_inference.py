"""A machine whose speed moves: whether verdicts hold there, from the controller's plan to tables.

The small version of `benchmarks/inference.py`, whose table stands in docs/statistics.md. Seeded.
"""

from __future__ import annotations

import pytest

from benchmarks import inference
from benchmarks.simulated import World

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


def test_the_whole_way_voids_what_hosts_saw_and_is_right() -> None:
    """From the plan through the controller's own judging, storing and repeating to the page."""
    tally = inference.whole_way(World("w", tenants=0.15, seen=True, fails=0.02), 2, seed=1)
    assert tally.mean("void") > 0.02 and 0 < tally.mean("dropped") < 0.2
    assert tally.mean("case covered") > 0.8
    assert tally.median("case width") < 0.12, "what slows by 1.3 to 2 is in none of them"
