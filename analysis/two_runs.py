"""Runs before against runs after: the same cells, what changed in them, and what else did.

Two runs differ by more than what was meant to change: other days, other neighbours, a machine that
was started anew. So a cell is compared through the baseline of its own run, as a ratio of ratios:
what makes a whole run faster is in neither. Where a run holds no baseline, the run itself is the
unit, and there is a verdict from four runs a side on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from . import inference, matching, pairing, stats, tables, text
from .differences import differences
from .errors import NothingInCommon
from .inference import Estimate
from .load import Loaded, canonical, check_digests, usable
from .metrics import Metric
from .shown import shown
from .terminal import verdict

Runs = Sequence[Loaded]
# Of three runs a side, all of one lie above all of the other by chance in 10 of 100: 2 / C(6, 3).
FEWEST_RUNS = 4
RATIOS, ALONE = "against its run's baseline", "by itself"


@dataclass
class Cell:
    """A cell in the runs of one side: its trials, and its pairs where its run has a baseline."""

    name: str
    arms: list[tuple[pd.DataFrame, pairing.Arm]] = field(default_factory=list)
    trials: list[pd.DataFrame] = field(default_factory=list)

    @property
    def id(self) -> str:
        return str(self.trials[0]["cell"].iloc[0])


def lines(left: Runs, right: Runs, within: float = 0.0) -> list[str]:
    """The comparison of the runs `right` with the runs `left` as lines of at most 100 columns.

    Where `within` is a share, it says of each cell whether the two are equivalent to within that.

    Raises UnequalDigests when the runs used other bits or data, NothingInCommon when no cell has
    a usable trial on both sides.
    """
    found = compare(left, right)
    changed = differences(left[0], right[0])
    confounds = int((changed["kind"] == "confound").sum())
    before, after = (side[0].run.run for side in (left, right))
    out = [f"{after} against {before}"]
    out += [f"{each.run.run}: {note}" for each in (*left, *right) for note in each.notices()]
    out += [f"only in {run}: {cell}" for run, cell in unshared(left, right)]
    groups = found.groupby("metric", sort=False)
    parts = [(right[0].metrics.get(str(name)), rows) for name, rows in groups]
    for metric, rows in parts:
        if metric.headline:
            out += ["", f"{metric.label}: change from {before}"]
            head = ("cell", "compared", "change", "95 % interval", "could see", "verdict")
            out += text.table(head, [_texts(row) for row in tables.records(rows)], {2, 3, 4},
                              wrap=True)  # fmt: skip
            out += ["", *_equivalence(rows, within)] if within else []
    rest = sum(not metric.headline for metric, _ in parts)
    out += ["", f"{rest} more metrics are on the page"] if rest else []
    out += ["", "what differs between the runs" if len(changed) else "nothing else differs"]
    if len(changed):
        rows_ = [(r["kind"], r["label"], r["left"], r["right"]) for r in tables.records(changed)]
        out += text.table(("class", "what", before, after), rows_, set())
    if confounds:
        word = "confound" if confounds == 1 else "confounds"
        out += ["", f"{confounds} {word}: a change above need not come from what was under test"]
    return [shown(line, keep="") for line in out]


def compare(left: Runs, right: Runs) -> pd.DataFrame:
    """A row a cell that both sides have, and metric: the change from `left` to `right`.

    Columns as of `stats.compare`; `compared` says against what. `n` and `n_left` count pairs where
    each side's baseline stands between, and runs where the cell is compared by itself.

    Raises UnequalDigests, NothingInCommon.
    """
    aside = under_test(left[0], right[0])
    before, after = _cells(left, aside), _cells(right, aside)
    shared = [key for key in before if key in after]
    if not shared:
        names = " and ".join(side[0].run.run for side in (left, right))
        raise NothingInCommon(f"{names} have no cell in common that ended well in both")
    check_digests(_both(before, after, shared))
    columns = {str(name) for cell in before.values() for one in cell.trials for name in one}
    units = {m.name: m.unit for run in left for m in run.metrics}
    metrics = [
        metric
        for metric in stats.compared(list(right[0].metrics))
        if metric.name in columns and units.get(metric.name, metric.unit) == metric.unit
    ]
    rows = [
        row
        for key in sorted(shared, key=lambda key: after[key].name)
        for metric in metrics
        for row in _rows(before[key], after[key], metric)
    ]
    return pd.DataFrame(rows).sort_values("metric", kind="stable", key=_order(metrics))


def unshared(left: Runs, right: Runs) -> list[tuple[str, str]]:
    """Each cell that only one side has a good trial of: its run, and its name."""
    aside = under_test(left[0], right[0])
    before, after = _cells(left, aside), _cells(right, aside)
    return [
        (side[0].run.run, cell.name)
        for side, ours, theirs in ((left, before, after), (right, after, before))
        for key, cell in ours.items()
        if key not in theirs
    ]


def under_test(left: Loaded, right: Loaded) -> set[str]:
    """Levels in which the runs are told apart: one value in `left`, and only others in `right`.

    A run on Docker against a run without it differs in the runtime, and in the network with it.
    """
    ours, theirs = (_values(loaded) for loaded in (left, right))
    return {
        name
        for name in ours.keys() | theirs.keys()
        if len(ours.get(name, set())) == 1 and not ours[name] & theirs.get(name, set())
    }


def _values(loaded: Loaded) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for levels in map(json.loads, loaded.trials["levels"]):
        for name, value in levels.items():
            found.setdefault(name, set()).add(canonical(value))
    return found


def _order(metrics: Sequence[Metric]) -> Any:
    place = {metric.name: n for n, metric in enumerate(metrics)}
    return lambda names: names.map(place)


def _both(before: dict[str, Cell], after: dict[str, Cell], keys: Sequence[str]) -> pd.DataFrame:
    parts = [one for side in (before, after) for key in keys for one in side[key].trials]
    return pd.concat(parts, ignore_index=True)


def _cells(side: Runs, aside: set[str]) -> dict[str, Cell]:
    """The cells of one side by their levels without those under test."""
    found: dict[str, Cell] = {}
    for loaded in side:
        trials = tables.derived(matching.assign(loaded))
        arms = {arm.cell: arm for arm in pairing.arms(trials)}
        for (cell, levels), group in usable(trials).groupby(["cell", "levels"], sort=False):
            kept = {k: v for k, v in json.loads(str(levels)).items() if k not in aside}
            first = group.iloc[0]
            name = first["arm"] if first["case"] == "all" else f"{first['arm']} · {first['case']}"
            one = found.setdefault(canonical(kept), Cell(str(name)))
            one.trials.append(group)
            if cell in arms and arms[str(cell)].pairs:
                one.arms.append((trials, arms[str(cell)]))
    return found


def _rows(before: Cell, after: Cell, metric: Metric) -> Iterator[dict[str, Any]]:
    """Through the baselines where both have one, else by itself."""
    if before.arms and after.arms:
        sides = [_through_pairs(cell, metric.name) for cell in (before, after)]
        compared, fewest, unit = RATIOS, stats.FEWEST, "pair"
    else:
        sides = [_by_itself(cell, metric.name) for cell in (before, after)]
        compared, fewest, unit = ALONE, FEWEST_RUNS, "run"
    (old, n_left), (new, n) = sides
    if n and n_left:
        effect, least = inference.of_contrast(new, old), min(n, n_left)
        yield {
            **{"case": after.name, "compared": compared, "metric": metric.name},
            **{"cell": after.id, "cell_left": before.id, "n": n, "n_left": n_left},
            **stats.as_ratio(effect),
            **{"needed": max(0, fewest - least), "unit": unit},
            "p_holm": math.nan,
            "verdict": (
                "emulated"
                if any(one["emulated"].any() for cell in (before, after) for one in cell.trials)
                else stats.verdict(effect, metric.better, least, fewest)
            ),
        }


def _through_pairs(cell: Cell, name: str) -> tuple[Estimate, int]:
    """The log-ratio to the baseline, over the runs of a side, and the number of pairs."""
    values = [arm.values(trials, name) for trials, arm in cell.arms]
    ratios = [stats.effects(*both)[0] for both in values if len(both[0])]
    known = [ratio for ratio in ratios if not math.isnan(ratio.mean)]
    return inference.of_cases(known), sum(len(ours) for ours, *_ in values) if known else 0


def _by_itself(cell: Cell, name: str) -> tuple[Estimate, int]:
    """The mean logarithm, of which each run gives one, and the number of runs."""
    values = [one[name].dropna().to_numpy(dtype=np.float64) for one in cell.trials if name in one]
    means = [float(np.log(v).mean()) for v in values if len(v) and (v > 0).all()]
    return inference.of_pairs(np.array(means)), len(means)


def equivalent(row: dict[str, Any], within: float) -> str:
    """Whether the change of a cell is shown to be less than that share, by its 95 % interval."""
    if row["verdict"] in ("too few trials", "emulated") or not math.isfinite(row["ratio_low"]):
        return "not shown"
    low, high = 1 - within, 1 + within
    if low <= row["ratio_low"] and row["ratio_high"] <= high:
        return "equivalent"
    outside = row["ratio_high"] < low or row["ratio_low"] > high
    return "not equivalent" if outside else "not shown"


def _equivalence(rows: pd.DataFrame, within: float) -> list[str]:
    """A row a cell: equivalent to within that share or not, or not shown to be either."""
    limit = text.percent(1 + within).lstrip("+")
    found = [
        (row["case"], text.span(row["ratio_low"], row["ratio_high"]).strip("()") or "none",
         equivalent(row, within))
        for row in tables.records(rows)
    ]  # fmt: skip
    return text.table(("cell", "95 % interval", f"within ±{limit}"), found, {1})


def _texts(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["case"],
        f"{row['compared']}, {counted(row)}",
        text.percent(row["ratio"]),
        text.span(row["ratio_low"], row["ratio_high"]).strip("()") or "none",
        text.detectable(row["detectable"]),
        verdict(row),
    )


def counted(row: dict[str, Any]) -> str:
    """`6 and 5 pairs`: those after, and those before."""
    return f"{row['n']} and {row['n_left']} {row['unit']}s"
