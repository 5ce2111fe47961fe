"""Known truths through the statistics: planted effects, no effect, too few trials, coverage."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
from synthetic import DOCKER, NATIVE, Effect, Synthetic

from analysis import load, matching, stats
from analysis.bootstrap import LINEAR, LOGARITHM, Array, Interval, contrast
from analysis.errors import UnequalDigests
from analysis.metrics import Metric

METRICS = [
    Metric("throughput", "Throughput", "images/s", "higher", headline=True),
    Metric("elapsed", "Elapsed", "s", "lower", headline=True),
    Metric("startup", "Startup", "s", "lower", headline=True),
]
NAMES = [metric.name for metric in METRICS]
ARM = "bare_metal/docker/bridge"
Noise = Callable[[np.random.Generator, int], Array]


def trials(made: Synthetic, folder: Path) -> pd.DataFrame:
    return matching.assign(load.load(made.write(folder)))


def only(frame: pd.DataFrame, **chosen: str) -> pd.Series:
    """The one row with these values."""
    for column, value in chosen.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_the_interval_is_the_same_for_the_same_seed_only() -> None:
    values = np.random.default_rng(5).lognormal(0, 0.1, 9)
    first = contrast([(values, 1.0)], LOGARITHM, seed=1)
    assert first == contrast([(values, 1.0)], LOGARITHM, seed=1)
    assert first != contrast([(values, 1.0)], LOGARITHM, seed=2)


def test_the_ratio_the_other_way_round_is_the_inverse() -> None:
    a, b = np.array([1.0, 1.1, 0.9, 1.05]), np.array([2.0, 2.3, 2.1, 2.2, 1.9])
    there = contrast([(b, 1.0), (a, -1.0)], LOGARITHM, seed=1)
    back = contrast([(b, -1.0), (a, 1.0)], LOGARITHM, seed=1)
    assert there.point == pytest.approx(b.mean() / a.mean())
    assert back.point == pytest.approx(1 / there.point)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


def test_units_do_not_matter_to_a_ratio() -> None:
    a, b = np.array([1.0, 1.1, 0.9, 1.05]), np.array([2.0, 2.3, 2.1, 2.2])
    plain = contrast([(b, 1.0), (a, -1.0)], LOGARITHM, seed=1)
    milli = contrast([(b * 1e3, 1.0), (a * 1e3, -1.0)], LOGARITHM, seed=1)
    assert (milli.low, milli.high) == pytest.approx((plain.low, plain.high))


def test_equal_values_have_an_interval_of_no_width() -> None:
    same = np.full(5, 3.0)
    found = contrast([(same, 1.0), (same, -1.0)], LOGARITHM, seed=1)
    assert (found.low, found.high) == pytest.approx((1.0, 1.0))


def test_one_value_has_no_interval() -> None:
    found = contrast([(np.array([2.0]), 1.0)], LINEAR, seed=1)
    assert found.point == 2.0
    assert math.isnan(found.low)


@pytest.mark.parametrize("count", [4, 5, 10])
def test_the_interval_of_a_mean_covers_it_in_about_95_of_100(count: int) -> None:
    """A plain percentile interval covers in 80 of 100 at 4 values, and cannot in more than 88."""
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(600):
        found = contrast([(generator.normal(100, 5, count), 1.0)], LOGARITHM, seed=1)
        covered += found.low <= 100 <= found.high
    assert 0.93 <= covered / 600 <= 0.98


def lognormal(spread: float) -> Noise:
    return lambda generator, count: generator.lognormal(0, spread, count)


def spikes(generator: np.random.Generator, count: int) -> Array:
    """A quiet machine on which one trial in seven is disturbed by a fifth."""
    return lognormal(0.01)(generator, count) * (1 + 0.2 * (generator.random(count) < 1 / 7))


def rate_of_verdicts(noise: Noise, count: int, effect: float, wanted: set[str]) -> float:
    """How often two arms that differ by the factor `effect` get one of the wanted verdicts."""
    generator, hits, rounds = np.random.default_rng(11), 0, 800
    for _ in range(rounds):
        baseline, other = noise(generator, count), noise(generator, count) * effect
        ratio = contrast([(other, 1.0), (baseline, -1.0)], LOGARITHM, seed=1)
        supported = stats.enough([(count, count)])
        hits += stats.verdict(ratio, "higher", supported) in wanted
    return hits / rounds


@pytest.mark.parametrize("count", [4, 5, 7, 10])
@pytest.mark.parametrize("noise", [lognormal(0.03), lognormal(0.3), spikes])
def test_a_platform_against_itself_is_rarely_called_different(noise: Noise, count: int) -> None:
    """5 % is nominal; 800 rounds have a standard error of 0.8 %."""
    assert rate_of_verdicts(noise, count, 1.0, {"degraded", "improved"}) <= 0.065


@pytest.mark.parametrize(("count", "effect", "power"), [(4, 0.92, 0.95), (6, 0.95, 0.9)])
def test_a_planted_effect_is_found(count: int, effect: float, power: float) -> None:
    """With 2 % of noise between trials."""
    assert rate_of_verdicts(lognormal(0.02), count, effect, {"degraded"}) >= power


def test_three_against_three_never_get_a_verdict_whatever_the_effect() -> None:
    assert rate_of_verdicts(lognormal(0.001), 3, 0.1, {"too few trials"}) == 1.0


@pytest.mark.parametrize(
    ("counts", "enough"),
    [
        ([(3, 3)], False),
        ([(3, 4)], False),
        ([(4, 4)], True),
        ([(3, 5)], False),
        ([(2, 20)], False),
        ([], False),
        ([(2, 2), (2, 2)], False),
        ([(2, 2), (2, 2), (2, 2)], True),
    ],
)
def test_too_few_is_below_four_an_arm_or_where_complete_separation_is_no_surprise(
    counts: list[tuple[int, int]], enough: bool
) -> None:
    assert stats.enough(counts) == enough


@pytest.mark.parametrize(
    ("limits", "better", "wanted"),
    [
        ((0.90, 0.95), "higher", "degraded"),
        ((0.90, 0.95), "lower", "improved"),
        ((1.02, 1.09), "higher", "improved"),
        ((1.02, 1.09), "lower", "degraded"),
        ((0.99, 1.01), "lower", "no credible change"),
        ((1.00, 1.01), "lower", "no credible change"),
        ((math.nan, math.nan), "lower", "too few trials"),
    ],
)
def test_four_verdicts(limits: tuple[float, float], better: str, wanted: str) -> None:
    ratio = Interval(sum(limits) / 2, *limits)
    assert stats.verdict(ratio, better, supported=True) == wanted  # type: ignore[arg-type]


def test_planted_effects_are_recovered_through_the_whole_way(tmp_path: Path) -> None:
    """Steps 1 / 0.92 longer are 8 % less throughput, and two seconds more of start-up are that."""
    made = Synthetic(
        cells=synthetic.cells(NATIVE, DOCKER, models=("resnet50", "alexnet")),
        effects={"docker": Effect(slower=1 / 0.92, startup=2.0)},
    )
    frame = trials(made, tmp_path / "run")
    compared = stats.compare(frame, METRICS, seed=1)
    assert len(compared) == 2 * len(NAMES)
    for case in ("resnet50", "alexnet"):
        throughput = only(compared, case=case, metric="throughput")
        assert throughput["ratio_low"] < 0.92 < throughput["ratio_high"]
        assert throughput["verdict"] == "degraded"
        assert (throughput["n"], throughput["n_baseline"]) == (6, 6)
        startup = only(compared, case=case, metric="startup")
        assert startup["difference_low"] < 2.0 < startup["difference_high"]
        assert startup["verdict"] == "degraded"
    pooled = only(stats.overall(frame, METRICS, seed=1), metric="throughput")
    single = compared[compared["metric"] == "throughput"]["ratio"]
    assert pooled["ratio"] == pytest.approx(float(np.exp(np.log(single).mean())))
    assert pooled["ratio_low"] < 0.92 < pooled["ratio_high"]
    assert (pooled["cases"], pooled["degraded"], pooled["arm"]) == (2, 2, ARM)


def test_two_labels_of_one_platform_do_not_differ(tmp_path: Path) -> None:
    made = Synthetic(
        cells=synthetic.cells(NATIVE, labels=("first", "again")),
        baseline={"runtime": "native", "label": "first"},
    )
    compared = stats.compare(trials(made, tmp_path / "run"), METRICS, seed=1)
    assert set(compared["arm"]) == {"bare_metal/native/host again"}
    assert set(compared["verdict"]) == {"no credible change"}


def test_more_steps_do_not_narrow_an_interval(tmp_path: Path) -> None:
    """Trials differ by 3 %, whatever the number of steps: only more trials would narrow it."""
    widths = []
    for steps in (20, 2000):
        made = Synthetic(cells=synthetic.cells(NATIVE), noise=0.03, steps=steps, seed=3)
        found = stats.summarise(trials(made, tmp_path / f"run{steps}"), ["throughput"], seed=1)
        widths.append(float((found["high"] - found["low"]).iloc[0] / found["mean"].iloc[0]))
    assert widths[1] > 0.4 * widths[0], "independent steps would have narrowed it to a tenth"


def test_a_summary_is_what_numpy_says(tmp_path: Path) -> None:
    frame = trials(Synthetic(cells=synthetic.cells(NATIVE), repeats=5), tmp_path / "run")
    values = frame["elapsed"].to_numpy()
    row = only(stats.summarise(frame, NAMES, seed=1), metric="elapsed")
    assert row["n"] == 5
    expected = (np.median(values), values.mean(), values.min(), values.max(), values.std(ddof=1))
    assert tuple(row[["median", "mean", "min", "max", "sd"]]) == pytest.approx(expected)
    assert row["low"] < row["mean"] < row["high"]


def test_below_four_trials_a_mean_has_no_interval(tmp_path: Path) -> None:
    frame = trials(Synthetic(cells=synthetic.cells(NATIVE), repeats=3), tmp_path / "run")
    assert stats.summarise(frame, NAMES, seed=1)["low"].isna().all()


def test_failed_and_void_trials_are_in_no_figure(tmp_path: Path) -> None:
    cells = synthetic.cells(NATIVE, DOCKER)
    made = Synthetic(cells=cells, repeats=5, failed={1: "killed"})
    frame = trials(made, tmp_path / "run")
    other = only(stats.compare(frame, METRICS, seed=1), metric="elapsed")
    assert (other["n"], other["n_baseline"]) == (4, 5)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_cell_of_which_all_trials_failed_is_a_row_and_no_hole(tmp_path: Path, lost: int) -> None:
    cells = synthetic.cells(NATIVE, DOCKER)
    failed = {lost + 2 * index: "killed" for index in range(5)}
    frame = trials(Synthetic(cells=cells, repeats=5, failed=failed), tmp_path / "run")
    row = only(stats.compare(frame, METRICS, seed=1), metric="throughput")
    assert row["verdict"] == "too few trials"
    assert sorted((row["n"], row["n_baseline"])) == [0, 5]
    assert math.isnan(row["ratio"])


def test_a_case_that_failed_does_not_take_the_answer_over_all_with_it(tmp_path: Path) -> None:
    """Of the first case's trials on Docker, all but one failed."""
    cells = synthetic.cells(NATIVE, DOCKER, models=("resnet50", "alexnet"))
    failed = {1 + 4 * index: "killed" for index in range(4)}
    frame = trials(Synthetic(cells=cells, repeats=5, failed=failed), tmp_path / "run")
    pooled = only(stats.overall(frame, METRICS, seed=1), metric="throughput")
    assert (pooled["cases"], pooled["cases_planned"], pooled["undecided"]) == (1, 2, 1)
    assert pooled["verdict"] == "no credible change"


def test_a_metric_that_a_case_does_not_know_is_no_row_of_it(tmp_path: Path) -> None:
    frame = trials(Synthetic(cells=synthetic.cells(NATIVE, DOCKER)), tmp_path / "run")
    assert "decode_capacity" not in set(frame)
    some = frame.assign(decode_capacity=math.nan)
    assert stats.compare(
        some, [Metric("decode_capacity", "Input", "images/s", "higher")], seed=1
    ).empty


def test_a_run_without_a_baseline_compares_nothing(tmp_path: Path) -> None:
    made = Synthetic(cells=synthetic.cells(NATIVE), repeats=4)
    frame = trials(made, tmp_path / "run")
    assert stats.compare(frame, METRICS, seed=1).empty
    assert stats.overall(frame, METRICS, seed=1).empty


def test_a_comparison_over_unequal_images_is_refused(tmp_path: Path) -> None:
    folder = Synthetic(cells=synthetic.cells(NATIVE, DOCKER), repeats=4).write(tmp_path / "run")
    path = sorted(folder.glob("trials/*/record.json"))[0]
    record = json.loads(path.read_text())
    record["image"]["digest"] = "sha256:" + "b" * 64
    synthetic.dump(path, record)
    with pytest.raises(UnequalDigests, match="unequal workload images"):
        stats.compare(matching.assign(load.load(folder)), METRICS, seed=1)


def test_the_frame_that_is_given_stays_as_it_was(tmp_path: Path) -> None:
    frame = trials(Synthetic(cells=synthetic.cells(NATIVE, DOCKER)), tmp_path / "run")
    before = frame.copy(deep=True)
    stats.summarise(frame, NAMES, seed=1)
    stats.overall(frame, METRICS, seed=1)
    pd.testing.assert_frame_equal(frame, before)


def test_a_limit_beyond_all_numbers_is_infinite() -> None:
    found = contrast([(np.array([1e308, 1.0, 1.0, 1.0]), 1.0)], LOGARITHM, 1)
    assert found.point == pytest.approx(2.5e307) and found.high == math.inf
