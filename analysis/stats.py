"""Summaries and comparisons. The unit is the trial; docs/statistics.md says why and how.

All functions take the frame of `matching.assign` and return a new one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from .bootstrap import LINEAR, LOGARITHM, RESAMPLES, Array, Interval, contrast
from .load import check_digests, usable
from .metrics import Better, Metric

__all__ = ["RESAMPLES", "compare", "overall", "summarise", "verdict"]

Verdict = Literal["degraded", "no credible change", "improved", "too few trials"]
# Two arms whose complete separation would happen by chance more often say nothing.
CHANCE = 0.05
# Below this an arm has no interval of its mean, and no verdict: simulated, 2 against 8 of one
# platform are called different in 10 % of experiments, 3 against 20 in 8 %, 4 against 20 in 6 %.
FEWEST = 4
SUMMARY = ["case", "arm", "short", "cell", "metric", "n", "median", "mean", "min", "max", "sd",
           "low", "high"]  # fmt: skip


def separation(counts: Sequence[tuple[int, int]]) -> float:
    """How often all values of one arm lie above the other's by chance, in every case at once.

    Under no difference all orders are equally likely: two of C(n1 + n2, n1) are complete.
    """
    return min(1.0, 2 / math.prod(math.comb(first + second, first) for first, second in counts))


def enough(counts: Sequence[tuple[int, int]]) -> bool:
    """Whether so many trials, on both arms of each case, can support a verdict at all."""
    fewest = min(sum(arm) for arm in zip(*counts, strict=True)) if counts else 0
    return fewest >= FEWEST and separation(counts) <= CHANCE


def verdict(ratio: Interval, better: Better, supported: bool) -> Verdict:
    """What a ratio to the baseline says of a metric for which `better` is the good direction."""
    if not supported or math.isnan(ratio.low):
        return "too few trials"
    if ratio.low <= 1 <= ratio.high:
        return "no credible change"
    return "improved" if (ratio.point > 1) == (better == "higher") else "degraded"


def summarise(trials: pd.DataFrame, names: Sequence[str], seed: int) -> pd.DataFrame:
    """A row a cell and metric: n, median, mean, min, max, sd, low, high (of the mean)."""
    rows = []
    for keys, group in _cells(usable(trials)):
        for name in names:
            values = _values(group, name)
            if len(values):
                rows.append({**keys, "metric": name, **_summary(values, seed)})
    return pd.DataFrame(rows, columns=None if rows else SUMMARY)


def _summary(values: Array, seed: int) -> dict[str, float]:
    mean = Interval(float(values.mean()))
    if len(values) >= FEWEST:
        mean = contrast([(values, 1.0)], LOGARITHM if (values > 0).all() else LINEAR, seed)
    return {
        "n": len(values),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "min": float(values.min()),
        "max": float(values.max()),
        "sd": float(values.std(ddof=1)) if len(values) > 1 else math.nan,
        "low": mean.low,
        "high": mean.high,
    }


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


def pairs(trials: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame, pd.DataFrame]]:
    """Each cell off the baseline with its usable trials and those of its matched baseline.

    Either may be empty: a hole is a row with too few trials, not a row that is missing.
    """
    measured = trials[trials["role"] == "measured"]
    baselines = usable(measured[measured["is_baseline"]])
    for keys, group in _cells(measured[~measured["is_baseline"]]):
        baseline = baselines[baselines["match"] == group["match"].iloc[0]]
        yield keys, usable(group), baseline


def compared(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that have a better direction, and so can degrade."""
    return [metric for metric in metrics if metric.better]


def compare(trials: pd.DataFrame, metrics: Sequence[Metric], seed: int) -> pd.DataFrame:
    """A row a cell off the baseline and metric: ratio and difference to the baseline, verdict.

    Both have the limits of their 95 % intervals beside them: ratio_low, difference_high, ….
    Raises UnequalDigests when the trials did not all run the same bits on the same data.
    """
    check_digests(trials)
    rows = []
    for keys, group, baseline in pairs(trials):
        for metric in compared(metrics):
            arms = (_values(group, metric.name), _values(baseline, metric.name))
            # Neither arm has a metric that the case does not know, such as input capacity.
            if max(map(len, arms)) or (group.empty and baseline.empty):
                row = {"cell_baseline": baseline["cell"].iloc[0] if len(baseline) else ""}
                found = _comparison([arms], metric.better, seed)
                rows.append({**keys, **row, "metric": metric.name, **found})
    return pd.DataFrame(rows)


def _comparison(arms: list[tuple[Array, Array]], better: Better, seed: int) -> dict[str, Any]:
    """Ratio, difference and verdict of one case, or of several pooled with equal weight."""
    row: dict[str, Any] = {
        "n": sum(len(values) for values, _ in arms),
        "n_baseline": sum(len(baseline) for _, baseline in arms),
    }
    whole = [pair for pair in arms if len(pair[0]) and len(pair[1])]
    share = 1 / max(len(whole), 1)
    samples = [s for values, base in whole for s in ((values, share), (base, -share))]
    positive = bool(samples) and all((values > 0).all() for values, _ in samples)
    ratio = contrast(samples, LOGARITHM, seed) if positive else Interval(math.nan)
    change = contrast(samples, LINEAR, seed) if samples else Interval(math.nan)
    supported = enough([(len(values), len(base)) for values, base in whole])
    for part, found in (("ratio", ratio), ("difference", change)):
        row |= {part: found.point, f"{part}_low": found.low, f"{part}_high": found.high}
    return {**row, "verdict": verdict(ratio, better, supported)}


def overall(trials: pd.DataFrame, metrics: Sequence[Metric], seed: int) -> pd.DataFrame:
    """A row for each arm and metric: the geometric mean of its ratios over all cases, with verdict.

    Cases count alike. `cases` are in it, of `cases_planned`: those with two trials on either
    arm, as fewer have no spread. `degraded`, `improved`, `unchanged` and `undecided` count the
    verdicts of the single cases.
    """
    check_digests(trials)
    single = compare(trials, metrics, seed)
    arms: dict[tuple[str, str], list[tuple[pd.DataFrame, pd.DataFrame]]] = {}
    for keys, group, baseline in pairs(trials):
        arms.setdefault((keys["arm"], keys["short"]), []).append((group, baseline))
    rows = []
    for metric in compared(metrics):
        name = metric.name
        for (arm, short), found in arms.items():
            cases = [(_values(group, name), _values(baseline, name)) for group, baseline in found]
            if any(len(values) for values, _ in cases):
                used = [case for case in cases if min(map(len, case)) > 1]
                named = {"arm": arm, "short": short, "metric": name, "cases": len(used)}
                found_here = _comparison(used or cases, metric.better, seed)
                rows.append({**named, **found_here, **_counts(single, arm, name)})
    return pd.DataFrame(rows)


def _counts(single: pd.DataFrame, arm: str, name: str) -> dict[str, int]:
    own = single[(single["arm"] == arm) & (single["metric"] == name)]
    names = {
        "degraded": "degraded",
        "improved": "improved",
        "unchanged": "no credible change",
        "undecided": "too few trials",
    }
    return {
        "cases_planned": len(own),
        **{key: int((own["verdict"] == value).sum()) for key, value in names.items()},
    }
