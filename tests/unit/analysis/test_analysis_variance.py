"""Components of variance: planted ones are found, intervals hold, and the hour is well spent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import fdtri

from analysis import variance
from analysis.inference import UPPER
from analysis.variance import Cost, next_hour

RUNS = 1500


def planted(
    random: np.random.Generator, between: float, within: float, counts: list[int]
) -> list[np.ndarray]:
    """Values of rebuilds with these standard deviations."""
    return [random.normal(random.normal(0, between), within, count) for count in counts]


@pytest.mark.parametrize(
    ("between", "within", "counts"),
    [
        (0.02, 0.01, [4] * 6),
        (0.01, 0.02, [3] * 8),
        (0.01, 0.01, [6] * 3),
        (0.02, 0.01, [5, 5, 4, 4]),
        (0.01, 0.02, [1, 12, 12, 1, 12, 1]),
        (0.0, 0.01, [4] * 6),
    ],
)
def test_intervals_hold_the_planted_components(
    between: float, within: float, counts: list[int]
) -> None:
    random = np.random.default_rng(7)
    truth = {
        "between": between**2,
        "within": within**2,
        "share": between**2 / (between**2 + within**2),
    }
    held = dict.fromkeys([*truth, "mean"], 0)
    sums = dict.fromkeys(("between", "within"), 0.0)
    for _ in range(RUNS):
        found = variance.components(planted(random, between, within, counts))
        assert found is not None
        for name, value in truth.items():
            part = getattr(found, name)
            assert part.low <= part.value <= part.high
            held[name] += part.low <= value <= part.high
        held["mean"] += found.mean.low <= 0 <= found.mean.high
        for name in sums:
            sums[name] += getattr(found, name).value
    # 95 in 100, with a standard error of 0.6; where nothing is between, the lower end is 0 half
    # of the time by its cut, and the interval holds more often.
    for name, count in held.items():
        assert count / RUNS >= 0.935, (name, count / RUNS)
        assert count / RUNS <= 0.97 or name in ("between", "share"), (name, count / RUNS)
    assert sums["within"] / RUNS == pytest.approx(truth["within"], rel=0.05)
    if between > within / 2:  # cut at 0, it is too large where there is little of it
        assert sums["between"] / RUNS == pytest.approx(truth["between"], rel=0.15)


@pytest.mark.parametrize(("level", "end"), [(UPPER, "low"), (1 - UPPER, "high")])
def test_the_ends_reach_zero_just_where_the_f_test_does(level: float, end: str) -> None:
    """So they are made: what the F test does not tell from nothing, the interval does not."""
    rebuilds, repeats = 5, 4
    residuals = np.array([-1.0, 1.0, -1.0, 1.0])
    inside = rebuilds * float((residuals**2).sum()) / (rebuilds * (repeats - 1))
    middles = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    for factor in (0.999, 1.001):
        ratio = fdtri(rebuilds - 1, rebuilds * (repeats - 1), level) * factor
        scale = math.sqrt(ratio * inside / repeats / middles.var(ddof=1))
        found = variance.components([residuals + scale * middle for middle in middles])
        assert found is not None
        for part in (found.between, found.share):
            assert (getattr(part, end) > 0) is (factor > 1)


def test_with_one_rebuild_or_one_trial_on_each_they_cannot_be_parted() -> None:
    assert variance.components([np.array([1.0, 2.0])]) is None
    assert variance.components([np.array([1.0]), np.array([2.0])]) is None
    assert variance.components([np.array([]), np.array([1.0, 2.0])]) is None


def test_without_noise_within_all_of_it_is_between() -> None:
    found = variance.components([np.array([1.0, 1.0]), np.array([2.0, 2.0])])
    assert found is not None and found.share.value == 1.0
    assert found.between.value == pytest.approx(0.5)
    assert next_hour(found, Cost(60, 10)) is None


def of(between: float, within: float, rebuilds: int = 4, repeats: int = 3) -> variance.Components:
    """Components as if they had been found exactly."""
    random = np.random.default_rng(1)
    found = variance.components(planted(random, between, within, [repeats] * rebuilds))
    assert found is not None
    exact = {
        "between": variance.Part(between**2, 0, 1),
        "within": variance.Part(within**2, 0, 1),
    }
    return variance.Components(**{**found.__dict__, **exact})


@pytest.mark.parametrize(("between", "within"), [(0.01, 0.05), (0.03, 0.01), (0.01, 0.01)])
def test_the_hour_buys_most_where_a_simulation_of_all_designs_says(
    between: float, within: float
) -> None:
    cost = Cost(rebuild=90, round=20)
    told = next_hour(of(between, within), cost)
    assert told is not None
    seconds = 1e6  # so long that no part of a rebuild matters
    errors = {}
    for rounds in range(1, 60):
        rebuilds = seconds / (cost.rebuild + rounds * cost.round)
        errors[rounds] = (between**2 + within**2 / rounds) / rebuilds
    assert told.rounds == min(errors, key=lambda rounds: errors[rounds])
    assert told.best <= told.same < told.now and told.best <= told.staying < told.now


def test_where_rebuilds_do_not_differ_none_is_worth_its_time() -> None:
    told = next_hour(of(0.0, 0.01), Cost(rebuild=90, round=20))
    assert told is not None and math.isinf(told.rounds)
    assert told.best == told.staying < told.same
    assert next_hour(of(0.01, 0.01), Cost(math.nan, 20)) is None
