"""Two runs against each other: the same cells, before and after, and what else changed."""

from __future__ import annotations

import json

import pandas as pd

from . import matching, stats, tables, text
from .differences import differences
from .errors import NothingInCommon
from .load import Loaded, canonical, usable
from .shown import shown


def lines(left: Loaded, right: Loaded) -> list[str]:
    """The comparison of run `right` with run `left` as lines of at most 100 columns.

    Raises UnequalDigests when the runs used other bits or data, NothingInCommon when no cell has
    a usable trial in both.
    """
    found = compare(left, right)
    changed = differences(left, right)
    confounds = int((changed["kind"] == "confound").sum())
    out = [f"{right.run.run} against {left.run.run}"]
    out += [f"{loaded.run.run}: {note}" for loaded in (left, right) for note in loaded.notices()]
    parts = [(right.metrics.get(str(n)), rows) for n, rows in found.groupby("metric", sort=False)]
    for metric, rows in parts:
        if not metric.headline:
            continue
        out += ["", f"{metric.label}: change from {left.run.run}"]
        cells = [_cells(row) for _, row in rows.iterrows()]
        head = ("cell", "change", "95 % interval", "trials", "verdict")
        out += text.table(head, cells, {1, 2, 3})
    rest = sum(not metric.headline for metric, _ in parts)
    out += ["", f"{rest} more metrics are on the page"] if rest else []
    out += ["", "what differs between the runs" if len(changed) else "nothing else differs"]
    if len(changed):
        rows_ = [(r["kind"], r["label"], r["left"], r["right"]) for _, r in changed.iterrows()]
        out += text.table(("class", "what", left.run.run, right.run.run), rows_, set())
    if confounds:
        word = "confound" if confounds == 1 else "confounds"
        out += ["", f"{confounds} {word}: a change above need not come from what was under test"]
    return [shown(line, keep="") for line in out]


def compare(left: Loaded, right: Loaded) -> pd.DataFrame:
    """As `stats.compare`, with `left` as the baseline of each cell that has a match in both runs.

    Raises UnequalDigests, NothingInCommon.
    """
    before, after = (_named(loaded) for loaded in (left, right))
    aside = under_test(left, right)
    before, after = (frame.assign(match=_matches(frame, aside)) for frame in (before, after))
    shared = set(usable(before)["match"]) & set(usable(after)["match"])
    if not shared:
        raise NothingInCommon(
            f"{left.run.run} and {right.run.run} have no cell in common that ended well in both"
        )
    both = pd.concat(
        [before.assign(is_baseline=True), after.assign(is_baseline=False)], ignore_index=True
    )
    both = both[both["match"].isin(shared)]
    shared_metrics = [m for m in right.metrics if m.name in before and m.name in after]
    return stats.compare(both, shared_metrics, right.run.seed)


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


def _matches(trials: pd.DataFrame, aside: set[str]) -> list[str]:
    """The levels of each trial without those under test, as canonical JSON."""
    levels = map(json.loads, trials["levels"])
    return [canonical({k: v for k, v in one.items() if k not in aside}) for one in levels]


def _named(loaded: Loaded) -> pd.DataFrame:
    """Trials whose case is their whole cell: here the run is the arm."""
    trials = tables.derived(matching.assign(loaded))
    whole = [
        row["arm"] if row["case"] == "all" else f"{row['arm']} · {row['case']}"
        for _, row in trials.iterrows()
    ]
    return trials.assign(case=whole, arm=loaded.run.run, short=loaded.run.run)  # fmt: skip


def _cells(row: pd.Series) -> tuple[str, ...]:
    return (
        row["case"],
        text.percent(row["ratio"]),
        text.span(row["ratio_low"], row["ratio_high"]).strip("()") or "none",
        f"{row['n']} / {row['n_baseline']}",
        row["verdict"],
    )
