"""Known truths through the statistics: pairs, what drops one, planted effects, Holm, the model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
from scipy.stats import ttest_rel
from synthetic import DOCKER, NATIVE, Effect, Synthetic

from analysis import inference, load, matching, sensitivity, stats, text
from analysis.errors import UnequalDigests
from analysis.inference import Estimate
from analysis.metrics import Metric

METRICS = [
    Metric("throughput", "Throughput", "images/s", "higher", headline=True),
    Metric("elapsed", "Elapsed", "s", "lower", headline=True),
    Metric("startup", "Startup", "s", "lower", headline=True),
]
NAMES = [metric.name for metric in METRICS]
ARM = "bare_metal/docker/bridge"
BOTH = synthetic.cells(NATIVE, DOCKER)


def trials(made: Synthetic, folder: Path) -> pd.DataFrame:
    return matching.assign(load.load(made.write(folder)))


def only(frame: pd.DataFrame, **chosen: str) -> pd.Series:
    """The one row with these values."""
    for column, value in chosen.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def overall(frame: pd.DataFrame) -> pd.DataFrame:
    return stats.overall(frame, METRICS, stats.compare(frame, METRICS))


def test_the_interval_of_pairs_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = rng.lognormal(0, 0.1, 7), rng.lognormal(0, 0.1, 7)
    found = inference.of_pairs(np.log(ours / theirs))
    known = ttest_rel(np.log(ours), np.log(theirs))
    limits = known.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((limits.low, limits.high))
    assert found.p == pytest.approx(known.pvalue)


def test_what_is_printed_as_detectable_is_found_in_nine_of_ten() -> None:
    """Added to the very pairs that it was told from; 4,000 runs have a standard error of 0.5 %."""
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(4000):
        pairs = rng.normal(0, 0.03, 6)
        found += inference.of_pairs(pairs + inference.of_pairs(pairs).detectable).low > 0
    assert 0.88 <= found / 4000 <= 0.92


def test_several_cases_count_alike_and_lend_each_other_no_noise() -> None:
    quiet, loud = Estimate(0.0, 0.001, 5), Estimate(0.2, 0.1, 5)
    found = inference.of_cases([quiet, loud])
    assert (found.mean, found.error) == pytest.approx((0.1, math.hypot(0.001, 0.1) / 2))
    assert found.freedom == pytest.approx(5.0, abs=0.01), "that of the case that has the noise"
    alike = inference.of_cases([loud, loud])
    assert alike.freedom == pytest.approx(10)


def test_equal_pairs_have_an_interval_of_no_width_and_one_pair_has_none() -> None:
    same = inference.of_pairs(np.zeros(6))
    assert (same.low, same.high, same.p, same.detectable) == (0, 0, 1, 0)
    assert math.isnan(inference.of_pairs(np.array([0.1])).low)
    assert math.isnan(inference.of_pairs(np.array([])).mean)


def test_holm_is_that_of_his_paper() -> None:
    """Each p-value times how many are not yet rejected, never below the one before."""
    found = inference.holm([0.01, 0.04, math.nan, 0.03, 0.005])
    assert found[:2] == pytest.approx([0.03, 0.06]) and found[3:] == pytest.approx([0.06, 0.02])
    assert math.isnan(found[2])
    assert inference.holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("limits", "better", "wanted"),
    [
        ((-0.10, -0.05), "higher", "degraded"),
        ((-0.10, -0.05), "lower", "improved"),
        ((0.02, 0.09), "higher", "improved"),
        ((0.02, 0.09), "lower", "degraded"),
        ((-0.01, 0.01), "lower", "no credible change"),
    ],
)
def test_verdicts(limits: tuple[float, float], better: str, wanted: str) -> None:
    middle, half = sum(limits) / 2, (limits[1] - limits[0]) / 2
    effect = Estimate(middle, half / Estimate(0, 1, 5).half_width, 5)
    assert stats.verdict(effect, better, 6) == wanted  # type: ignore[arg-type]
    assert stats.verdict(effect, better, 5) == "too few trials"  # type: ignore[arg-type]


def test_planted_effects_are_recovered_through_the_whole_way(tmp_path: Path) -> None:
    """Steps 1 / 0.92 longer are 8 % less throughput, and two seconds more of start-up are that."""
    made = Synthetic(
        cells=synthetic.cells(NATIVE, DOCKER, models=("resnet50", "alexnet")),
        effects={"docker": Effect(slower=1 / 0.92, startup=2.0)},
    )
    frame = trials(made, tmp_path / "run")
    compared = stats.compare(frame, METRICS)
    assert len(compared) == 2 * len(NAMES)
    for case in ("resnet50", "alexnet"):
        throughput = only(compared, case=case, metric="throughput")
        assert throughput["ratio_low"] < 0.92 < throughput["ratio_high"]
        assert throughput["ratio_median"] == pytest.approx(0.92, abs=0.03)
        assert (throughput["verdict"], throughput["n"], throughput["needed"]) == ("degraded", 6, 0)
        assert throughput["p"] <= throughput["p_holm"] < 0.05
        startup = only(compared, case=case, metric="startup")
        assert startup["difference_low"] < 2.0 < startup["difference_high"]
    whole = only(overall(frame), metric="throughput")
    single = compared[compared["metric"] == "throughput"]["ratio"]
    assert whole["ratio"] == pytest.approx(float(np.exp(np.log(single).mean())))
    assert whole["ratio_low"] < 0.92 < whole["ratio_high"]
    assert (whole["cases"], whole["degraded"], whole["holding"], whole["n"]) == (2, 2, 2, 12)
    assert whole["arm"] == ARM


def test_hosts_that_are_emulated_get_figures_and_no_verdict(tmp_path: Path) -> None:
    host = {**synthetic.HOST, "accelerator": "tcg"}
    effects = {"docker": Effect(slower=2.0)}
    loaded = load.load(Synthetic(BOTH, effects=effects, host=host).write(tmp_path / "run"))
    frame = matching.assign(loaded)
    single, whole = only(stats.compare(frame, METRICS), metric="throughput"), overall(frame)
    assert single["ratio"] == pytest.approx(0.5, abs=0.05)
    assert single["verdict"] == "emulated" and set(whole["verdict"]) == {"emulated"}
    assert (whole["undecided"] == 1).all() and not stats.judged(single)
    assert any("QEMU emulates the CPU of node1" in notice for notice in loaded.notices())


def test_hosts_that_share_a_kernel_are_named(tmp_path: Path) -> None:
    host = {**synthetic.HOST, "virtualisation": "container"}
    loaded = load.load(Synthetic(BOTH, host=host).write(tmp_path / "run"))
    assert any("share one kernel, its clock and its disks: node1." in n for n in loaded.notices())


def test_a_pair_is_of_one_round_so_that_a_drift_is_in_neither_arm(tmp_path: Path) -> None:
    """The machine halves its speed over the run: unpaired, 2 % of noise would be lost in it."""
    frame = trials(Synthetic(BOTH, noise=0.002, repeats=6), tmp_path / "run")
    speed = frame["round"].map(dict(enumerate(np.linspace(1, 0.5, 6), 1)))
    slowed = stats.compare(frame.assign(throughput=frame["throughput"] * speed), METRICS)
    row = only(slowed, metric="throughput")
    plain = only(stats.compare(frame, METRICS), metric="throughput")
    assert row["ratio_high"] == pytest.approx(plain["ratio_high"])
    assert row["ratio_high"] / row["ratio_low"] < 1.03


def test_a_pair_is_of_one_block_and_one_round(tmp_path: Path) -> None:
    """The same trials, three rounds in each of two blocks; another block's baseline is no pair."""
    frame = trials(Synthetic(BOTH), tmp_path / "run")
    later = frame["repetition"] > 3
    blocks = frame.assign(
        block=np.where(later, "b2", "b1"), round=(frame["repetition"] - 1) % 3 + 1
    )
    pd.testing.assert_frame_equal(stats.compare(blocks, METRICS), stats.compare(frame, METRICS))
    apart = blocks.assign(block=blocks["block"].where(blocks["is_baseline"], "b3"))
    assert set(stats.compare(apart, METRICS)["n"]) == {0}


def test_records_of_before_schema_3_are_paired_by_repetition(tmp_path: Path) -> None:
    frame = trials(Synthetic(BOTH), tmp_path / "run")
    older = frame.assign(block="", round=0)
    pd.testing.assert_frame_equal(stats.compare(older, METRICS), stats.compare(frame, METRICS))


def test_two_labels_of_one_platform_do_not_differ(tmp_path: Path) -> None:
    made = Synthetic(
        cells=synthetic.cells(NATIVE, labels=("first", "again")),
        baseline={"runtime": "native", "label": "first"},
        repeats=8,
    )
    compared = stats.compare(trials(made, tmp_path / "run"), METRICS)
    assert set(compared["arm"]) == {"bare_metal/native/host again"}
    assert set(compared["verdict"]) == {"no credible change"}
    assert compared["is_control"].all() and compared["p_holm"].isna().all(), "it asks nothing"


def test_more_steps_do_not_narrow_an_interval(tmp_path: Path) -> None:
    """Trials differ by 3 %, whatever the number of steps: only more trials would narrow it."""
    widths = []
    for steps in (20, 2000):
        made = Synthetic(cells=synthetic.cells(NATIVE), noise=0.03, steps=steps, seed=3)
        found = stats.summarise(trials(made, tmp_path / f"run{steps}"), ["throughput"])
        widths.append(float((found["high"] - found["low"]).iloc[0] / found["mean"].iloc[0]))
    assert widths[1] > 0.4 * widths[0], "independent steps would have narrowed it to a tenth"


def test_a_summary_is_that_of_the_trials_of_a_cell(tmp_path: Path) -> None:
    frame = trials(Synthetic(cells=synthetic.cells(NATIVE), repeats=5), tmp_path / "run")
    found = only(stats.summarise(frame, NAMES), metric="throughput")
    values = frame["throughput"]
    assert (found["n"], found["mean"]) == (5, pytest.approx(values.mean()))
    assert (found["min"], found["max"]) == (values.min(), values.max())
    assert found["low"] < found["mean"] < found["high"]


def test_three_trials_have_no_interval_of_their_mean(tmp_path: Path) -> None:
    frame = trials(Synthetic(cells=synthetic.cells(NATIVE), repeats=3), tmp_path / "run")
    assert stats.summarise(frame, NAMES)["low"].isna().all()


def test_a_failed_trial_drops_its_pair_and_is_counted(tmp_path: Path) -> None:
    """The other half alone is in no figure of the comparison."""
    frame = trials(Synthetic(BOTH, failed={1: "killed", 4: "killed"}), tmp_path / "run")
    row = only(stats.compare(frame, METRICS), metric="elapsed")
    assert (row["n"], row["planned"], row["needed"]) == (4, 6, 2)
    assert text.meaning(row) == "too few pairs: 2 more needed"
    assert stats.dropped(frame) == (2, 6)
    whole = frame[~frame["repetition"].isin([1, 3])]
    assert row["ratio"] == only(stats.compare(whole, METRICS), metric="elapsed")["ratio"]


def test_a_trial_that_is_void_or_missing_drops_its_pair_too(tmp_path: Path) -> None:
    frame = trials(Synthetic(BOTH, repeats=8), tmp_path / "run")
    void = frame.assign(status=frame["status"].where(frame.index != 3, "void"))
    missing = frame.drop(index=3).reset_index(drop=True)
    for less in (void, missing):
        assert set(stats.compare(less, METRICS)["n"]) == {7}
        assert stats.dropped(less) == (1, 8)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_cell_of_which_all_trials_failed_is_a_row_and_no_hole(tmp_path: Path, lost: int) -> None:
    failed = {lost + 2 * index: "killed" for index in range(6)}
    frame = trials(Synthetic(BOTH, failed=failed), tmp_path / "run")
    row = only(stats.compare(frame, METRICS), metric="throughput")
    assert (row["verdict"], row["n"]) == ("too few trials", 0)
    assert math.isnan(row["ratio"])


def test_a_case_that_failed_does_not_take_the_answer_over_all_with_it(tmp_path: Path) -> None:
    """Of the first case's trials on Docker, all but one failed."""
    cells = synthetic.cells(NATIVE, DOCKER, models=("resnet50", "alexnet"))
    failed = {1 + 4 * index: "killed" for index in range(5)}
    frame = trials(Synthetic(cells=cells, failed=failed), tmp_path / "run")
    found = only(overall(frame), metric="throughput")
    assert (found["cases"], found["cases_planned"], found["undecided"]) == (1, 2, 1)
    assert (found["n"], found["planned"]) == (6, 12)
    assert found["verdict"] == "no credible change"


def test_few_pairs_of_several_cases_are_enough_over_all_of_them(tmp_path: Path) -> None:
    cells = synthetic.cells(NATIVE, DOCKER, models=("resnet50", "alexnet"))
    effects = {"docker": Effect(slower=1.2)}
    frame = trials(Synthetic(cells, effects, repeats=4), tmp_path / "run")
    assert set(stats.compare(frame, METRICS)["verdict"]) == {"too few trials"}
    assert only(overall(frame), metric="throughput")["verdict"] == "degraded"


def test_a_metric_that_a_case_does_not_know_is_no_row_of_it(tmp_path: Path) -> None:
    frame = trials(Synthetic(BOTH), tmp_path / "run")
    capacity = [Metric("decode_capacity", "Input", "images/s", "higher")]
    some = frame.assign(decode_capacity=math.nan)
    assert "decode_capacity" not in set(frame)
    assert stats.compare(some, capacity).empty


@pytest.mark.parametrize("baseline", [True, False])
def test_a_metric_that_one_arm_lacks_keeps_its_answer(tmp_path: Path, baseline: bool) -> None:
    frame = trials(Synthetic(BOTH), tmp_path / "run")
    lacking = frame["throughput"].where(frame["is_baseline"] != baseline)
    some = frame.assign(throughput=lacking)
    row = only(stats.compare(some, METRICS), metric="throughput")
    assert (row["verdict"], row["n"]) == ("too few trials", 0)
    assert only(overall(some), metric="throughput")["verdict"] == "too few trials"


def test_zeros_have_no_ratio_and_their_difference_answers(tmp_path: Path) -> None:
    frame = trials(Synthetic(BOTH), tmp_path / "run")
    idle = np.where(frame["is_baseline"], 0.0, 5 + 0.1 * frame["repetition"])
    row = only(stats.compare(frame.assign(startup=idle), METRICS), metric="startup")
    assert math.isnan(row["ratio"])
    assert row["difference_low"] < 5.35 < row["difference_high"]
    assert (row["verdict"], text.meaning(row)) == ("degraded", "degraded")


def test_a_run_without_a_baseline_compares_nothing(tmp_path: Path) -> None:
    frame = trials(Synthetic(cells=synthetic.cells(NATIVE), repeats=4), tmp_path / "run")
    assert stats.compare(frame, METRICS).empty
    assert overall(frame).empty


def test_a_comparison_over_unequal_images_is_refused(tmp_path: Path) -> None:
    folder = Synthetic(BOTH, repeats=4).write(tmp_path / "run")
    path = sorted(folder.glob("trials/*/record.json"))[0]
    record = json.loads(path.read_text())
    record["image"]["digest"] = "sha256:" + "b" * 64
    synthetic.dump(path, record)
    with pytest.raises(UnequalDigests, match="unequal workload images"):
        stats.compare(matching.assign(load.load(folder)), METRICS)


def test_the_frame_that_is_given_stays_as_it_was(tmp_path: Path) -> None:
    frame = trials(Synthetic(BOTH), tmp_path / "run")
    before = frame.copy(deep=True)
    stats.summarise(frame, NAMES)
    overall(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_a_ratio_beyond_all_numbers_is_infinite() -> None:
    assert inference.ratio(1e6) == math.inf


def test_it_is_said_how_large_an_effect_may_hide_and_never_that_there_is_none() -> None:
    row = {"verdict": "no credible change", "ratio": 1.0, "ratio_low": 0.974, "ratio_high": 1.021}
    said = text.meaning({**row, "detectable": 0.024})
    assert said == "no effect above 2.6 %; this run could have seen 2.4 %"


def drifting(effect: float, rng: np.random.Generator, rounds: int = 12) -> pd.DataFrame:
    """Trials of six cells whose speed drifts, in random order, one arm faster by `effect`."""
    cells = [(case, arm) for case in "abc" for arm in ("base", "other")]
    order = [cells[i] for _ in range(rounds) for i in rng.permutation(6)]
    drift = np.zeros(len(order))
    for n in range(1, len(order)):
        drift[n] = 0.9 * drift[n - 1] + rng.normal(0, 0.05)
    log = drift + rng.normal(0, 0.01, len(order)) + [effect * (arm == "other") for _, arm in order]
    frame = pd.DataFrame(order, columns=["match", "arm"])
    rest = {"status": "ok", "role": "measured", "is_baseline": frame["arm"] == "base"}
    return frame.assign(cell=frame["match"] + frame["arm"], rate=np.exp(log), **rest)


def test_the_model_with_autocorrelated_noise_holds_its_level_and_finds_the_correlation() -> None:
    """Plain least squares over the same trials would be wrong by far more than it says."""
    rng = np.random.default_rng(4)
    covered, fading, widths = 0, [], []
    for _ in range(150):
        found = sensitivity.fit(drifting(0.05, rng), "rate")["other"]
        covered += found["model_low"] <= math.exp(0.05) <= found["model_high"]
        fading.append(found["model_correlation"])
        widths.append(found["model_high"] - found["model_low"])
    assert 0.91 <= covered / 150 <= 0.99
    assert 0.8 <= float(np.median(fading)) <= 0.96
    assert float(np.median(widths)) < 0.05


def test_below_six_cells_there_is_no_model() -> None:
    frame = drifting(0.0, np.random.default_rng(5))
    assert sensitivity.fit(frame[frame["match"] != "a"], "rate") == {}
    assert sensitivity.fit(frame.assign(rate=0.0), "rate") == {}
    assert sensitivity.fit(frame, "unheard_of") == {}
