"""Summaries and comparisons. The unit is the trial, the observation the pair of two of them.

docs/statistics.md says why and how. All functions take the frame of `matching.assign` and return
a new one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from . import inference, sensitivity
from .inference import NOTHING, Estimate
from .load import check_digests, usable
from .metrics import Better, Metric
from .pairing import Arm, Array, Sides, arms

__all__ = ["FEWEST", "compare", "judged", "overall", "summarise", "verdict"]

Verdict = Literal["degraded", "no credible change", "improved", "too few trials", "emulated"]
# That fewer pairs all point the same way happens by chance in more than 5 of 100 runs without any
# difference: 2 / 2**5 is 6 %. Student's t needs normal noise to be right below that.
FEWEST = 6
# Fewer trials than this have no interval of their mean.
FEWEST_OF_MEAN = 4
CHANCE = 0.05
SUMMARY = ["case", "arm", "short", "cell", "metric", "n", "median", "mean", "min", "max", "sd",
           "low", "high"]  # fmt: skip


def judged(row: Mapping[Any, Any]) -> bool:
    """Whether a comparison says anything: it had pairs enough, and no CPU was emulated."""
    return row["verdict"] not in ("too few trials", "emulated")


def verdict(effect: Estimate, better: Better, count: int, fewest: int = FEWEST) -> Verdict:
    """What an effect on a metric says for which `better` is the good direction.

    The effect is a log-ratio, or a difference: 0 is none. `count` observations, of which a verdict
    needs `fewest`, are behind it.
    """
    if count < fewest or math.isnan(effect.error):
        return "too few trials"
    if effect.low <= 0 <= effect.high:
        return "no credible change"
    return "improved" if (effect.mean > 0) == (better == "higher") else "degraded"


def summarise(trials: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A row a cell and metric: n, median, mean, min, max, sd, low, high (of the mean)."""
    rows = []
    for keys, group in _cells(usable(trials)):
        for name in names:
            values = _values(group, name)
            if len(values):
                rows.append({**keys, "metric": name, **_summary(values)})
    return pd.DataFrame(rows, columns=None if rows else SUMMARY)


def _summary(values: Array) -> dict[str, float]:
    mean, (low, high) = float(values.mean()), _interval(values)
    return {
        "n": len(values),
        "median": float(np.median(values)),
        "mean": mean,
        "min": float(values.min()),
        "max": float(values.max()),
        "sd": float(values.std(ddof=1)) if len(values) > 1 else math.nan,
        "low": low,
        "high": high,
    }


def _interval(values: Array) -> tuple[float, float]:
    """Of the mean; of positive values by factors, so that it does not reach below zero."""
    mean = float(values.mean())
    if len(values) < FEWEST_OF_MEAN:
        return math.nan, math.nan
    if not (values > 0).all():
        found = inference.of_pairs(values)
        return found.low, found.high
    factor = inference.ratio(inference.of_pairs(np.log(values)).half_width)
    return mean / factor, mean * factor


def _cells(trials: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Each cell with its names, the baseline first in each case."""
    keys = ["case", "is_baseline", "arm", "short", "match", "cell"]
    ordered = trials.sort_values(keys, ascending=[True, False, True, True, True, True])
    for found, group in ordered.groupby(keys, sort=False):
        names = {key: str(value) for key, value in zip(keys, found, strict=True)}
        yield {key: names[key] for key in ("case", "arm", "short", "cell")}, group


def _values(group: pd.DataFrame, name: str) -> Array:
    if name not in group:
        return np.array([], dtype=np.float64)
    return group[name].dropna().to_numpy(dtype=np.float64)


def compared(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that have a better direction, and so can degrade."""
    return [metric for metric in metrics if metric.better]


def compare(
    trials: pd.DataFrame, metrics: Sequence[Metric], *, anytime: bool = False
) -> pd.DataFrame:
    """A row a cell off the baseline and metric: what its pairs say, beside how many there are.

    `n` pairs of `planned`; `ratio` (a geometric mean) and `ratio_median`, `difference` in the
    metric's unit, both with `_low` and `_high` of their 95 % intervals; `p`, and `p_holm` corrected
    for the cells of the run; `detectable`, the least change that would have been found, as a share;
    `needed`, how many pairs a verdict still needs; the verdict. `is_control` marks an A/A
    comparison, which is no question and takes no part in the correction.

    With `anytime` the intervals are those that hold whenever one looks, as for a run that ends when
    they are narrow enough.

    Raises UnequalDigests when the trials did not all run the same bits on the same data.
    """
    check_digests(trials)
    rows = []
    for arm in arms(trials):
        for metric in compared(metrics):
            if _knows(trials, arm, metric):
                rows.append(_row(trials, arm, metric, anytime=anytime))
    return _corrected(pd.DataFrame(rows))


def _knows(trials: pd.DataFrame, arm: Arm, metric: Metric) -> bool:
    """Whether the case of an arm has the metric: neither arm has one that it does not know, such as
    input capacity. Where no trial ended well it is a hole."""
    return any(arm.has(trials, metric.name)) or not (arm.trials or arm.baseline)


def _row(trials: pd.DataFrame, arm: Arm, metric: Metric, *, anytime: bool) -> dict[str, Any]:
    ours, theirs, sides = arm.values(trials, metric.name)
    ratio, difference = effects(ours, theirs, sides, anytime=anytime)
    return {
        **_names(arm),
        "cell": arm.cell,
        "cell_baseline": arm.cell_baseline,
        "metric": metric.name,
        "n": len(ours),
        "planned": arm.planned,
        **as_ratio(ratio),
        "ratio_median": float(np.median(ours / theirs)) if not math.isnan(ratio.mean) else math.nan,
        "difference": difference.mean,
        "difference_low": difference.low,
        "difference_high": difference.high,
        # Where a value is not above zero there is no ratio, and the difference answers.
        **_judged(
            difference if math.isnan(ratio.mean) else ratio,
            metric.better,
            len(ours),
            emulated=arm.emulated(trials),
        ),
    }


def _names(arm: Arm) -> dict[str, Any]:
    return {key: getattr(arm, key) for key in ("case", "arm", "short", "is_control")}


def effects(
    ours: Array, theirs: Array, sides: Sides, *, anytime: bool = False
) -> tuple[Estimate, Estimate]:
    """Log-ratio and difference within pairs; no log-ratio where a value is not above zero."""
    if not len(ours):
        return NOTHING, NOTHING

    def estimate(differences: Array) -> Estimate:
        if anytime:
            return inference.at_any_time([inference.balanced(differences, sides)])
        return inference.of_duets(differences, sides)

    positive = bool((ours > 0).all() and (theirs > 0).all())
    return estimate(np.log(ours / theirs)) if positive else NOTHING, estimate(ours - theirs)


def as_ratio(effect: Estimate) -> dict[str, float]:
    """A log-ratio as people read it."""
    return {
        "ratio": inference.ratio(effect.mean),
        "ratio_low": inference.ratio(effect.low),
        "ratio_high": inference.ratio(effect.high),
        "detectable": inference.ratio(effect.detectable) - 1,
    }


def _judged(effect: Estimate, better: Better, pairs: int, *, emulated: bool) -> dict[str, Any]:
    return {
        "p": effect.p if pairs >= FEWEST else math.nan,
        "needed": max(0, FEWEST - pairs),
        "verdict": "emulated" if emulated else verdict(effect, better, pairs),
    }


def stands_alone(row: Mapping[Any, Any]) -> bool:
    """Whether a verdict of change does not hold beside those of all other cells (Holm)."""
    return row["verdict"] in ("degraded", "improved") and row["p_holm"] > CHANCE


def dropped(trials: pd.DataFrame) -> tuple[int, int]:
    """Pairs that lack one of their trials, and all that were planned."""
    found = list(arms(trials))
    planned = sum(arm.planned for arm in found)
    return planned - sum(len(arm.pairs) for arm in found), planned


def _corrected(rows: pd.DataFrame) -> pd.DataFrame:
    """With `p_holm`: of each metric, corrected for all of its cells that ask something."""
    if rows.empty:
        return rows
    asking = rows["p"].where(~rows["is_control"])
    holm = asking.groupby(rows["metric"]).transform(lambda p: inference.holm(p.to_list()))
    return rows.assign(p_holm=holm)


def overall(
    trials: pd.DataFrame,
    metrics: Sequence[Metric],
    single: pd.DataFrame,
    *,
    model: bool = True,
    anytime: bool = False,
) -> pd.DataFrame:
    """A row for each arm and metric: the geometric mean of its ratios over all cases, with verdict.

    Cases count alike, each with the variance of its own pairs. `cases` are in it, of
    `cases_planned`: those with two pairs, as fewer have no spread. `n` counts pairs, `planned`
    those of the plan. `degraded`, `improved`, `unchanged` and `undecided` count the verdicts of the
    single cases, `holding` those of change that stand after Holm's correction; `single` are those
    cases, of `compare`. `model_ratio`, with its ends and `model_correlation`, is the sensitivity
    figure of `sensitivity.fit` for headline metrics; without `model` it is left out.
    """
    named: dict[tuple[str, str], list[Arm]] = {}
    for arm in arms(trials):
        named.setdefault((arm.arm, arm.short), []).append(arm)
    rows = []
    for metric in compared(metrics):
        # Of duets it would take two trials at the same time for two in turn.
        asked = model and metric.headline and not trials["side"].any()
        fitted = sensitivity.fit(trials, metric.name) if asked else {}
        for (name, short), every in named.items():
            # As in `compare`: a case of another workload does not know the metric.
            found = [arm for arm in every if _knows(trials, arm, metric)]
            if any(any(arm.has(trials, metric.name)) for arm in found):
                control = all(arm.is_control for arm in found)
                keys = {"arm": name, "short": short, "is_control": control, "metric": metric.name}
                own = single[(single["arm"] == name) & (single["metric"] == metric.name)]
                answer = _over_cases(trials, found, metric, anytime=anytime)
                rows.append(keys | answer | _counts(own) | fitted.get(name, sensitivity.NONE))
    return pd.DataFrame(rows)


def _over_cases(
    trials: pd.DataFrame, found: Sequence[Arm], metric: Metric, *, anytime: bool
) -> dict[str, Any]:
    values = [arm.values(trials, metric.name) for arm in found]
    ratios = [effects(*both)[0] for both in values]
    used = [ratio for ratio in ratios if not math.isnan(ratio.error)]
    # Without a case that has a spread the point alone is left, without an interval.
    one = [ratio for ratio in ratios if not math.isnan(ratio.mean)]
    effect = inference.of_cases(used) if used else inference.of_cases(one)
    pairs = sum(
        len(ours)
        for (ours, *_), ratio in zip(values, ratios, strict=True)
        if not math.isnan(ratio.error)
    )
    count = pairs
    if anytime and one:
        known = [v for v, ratio in zip(values, ratios, strict=True) if not math.isnan(ratio.mean)]
        cases = [inference.balanced(np.log(ours / theirs), sides) for ours, theirs, sides in known]
        effect, count = inference.at_any_time(cases), min(map(len, cases))
    return {
        "cases": len(used),
        "n": pairs,
        "planned": sum(arm.planned for arm in found),
        **as_ratio(effect),
        **_judged(effect, metric.better, count, emulated=any(a.emulated(trials) for a in found)),
    }


def _counts(own: pd.DataFrame) -> dict[str, int]:
    names = {
        "degraded": "degraded",
        "improved": "improved",
        "unchanged": "no credible change",
    }
    changed = own["verdict"].isin(["degraded", "improved"])
    return {
        "cases_planned": len(own),
        **{key: int((own["verdict"] == value).sum()) for key, value in names.items()},
        "undecided": int(own["verdict"].isin(["too few trials", "emulated"]).sum()),
        "holding": int((changed & (own["p_holm"] <= CHANCE)).sum()),
    }
