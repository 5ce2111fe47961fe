"""What a run answers first: its headline metrics, and a sentence for each arm."""

from __future__ import annotations

from typing import Any

import pandas as pd

from . import text
from .metrics import Metric
from .stats import judged
from .tables import Tables, records

MOST = 12


def headline(tables: Tables) -> list[Metric]:
    """The headline metrics that are compared, in their order."""
    compared = set(tables.comparisons["metric"]) if len(tables.comparisons) else set()
    return [metric for metric in tables.loaded.metrics.headline if metric.name in compared]


def available(tables: Tables) -> list[Metric]:
    """The headline metrics that this run has."""
    known = set(tables.summary["metric"])
    return [metric for metric in tables.loaded.metrics.headline if metric.name in known]


def baseline_name(tables: Tables) -> str:
    """What everything is compared with: `native/host`."""
    trials = tables.trials
    return ", ".join(sorted(set(trials.loc[trials["is_baseline"], "short"]))) or "no baseline"


def sentences(tables: Tables) -> list[str]:
    """What the run answers: those of `asked`, then those of `controls`."""
    return [*asked(tables), *controls(tables)]


def asked(tables: Tables) -> list[str]:
    """One sentence for each arm and workload: what it does to the workload's first headline metric,
    over all cases. Of very many arms, as of a grid, only the best and the worst. Those that cannot
    be judged yet, for the same reason, share one."""
    found = []
    for metric, rows in _leads(tables):
        asking = rows[~rows["is_control"]]
        if len(asking) > MOST:
            asking = asking.sort_values("ratio").iloc[[0, -1]]
        by: dict[str, list[str]] = {}
        for row in records(asking):
            by.setdefault(_answer(row, metric), []).append(row["short"])
        found += [f"{', '.join(names)}: {answer}" for answer, names in by.items()]
    return found


def controls(tables: Tables) -> list[str]:
    """The same of A/A arms: how much chance alone gives."""
    return [
        _control(row, metric)
        for metric, rows in _leads(tables)
        for row in records(rows[rows["is_control"]])
    ]


def _leads(tables: Tables) -> list[tuple[Metric, pd.DataFrame]]:
    """The first headline metric of each workload, with its rows over all cases."""
    found = headline(tables)
    if tables.overall.empty or not found:
        return []
    leads = [metric for metric in found if metric.name in tables.loaded.metrics.leads] or found[:1]
    overall = tables.overall.assign(is_control=tables.overall["is_control"].astype(bool))
    return [(metric, overall[overall["metric"] == metric.name]) for metric in leads]


def _answer(row: dict[str, Any], metric: Metric) -> str:
    """Of an arm, without its name. No figure without an interval that a verdict can stand on."""
    named = metric.label.lower()
    if judged(row):
        named += f" {text.change(row['ratio'], row['ratio_low'], row['ratio_high'])}"
    but = f", but confounded by {row['confounds']}" if row["confounds"] else ""
    return f"{named}: {text.meaning(row)}{but}."


def _control(row: dict[str, Any], metric: Metric) -> str:
    """An A/A comparison is judged by its width: that it finds nothing proves no quiet machine."""
    if not judged(row):
        return f"{row['short']} (A/A), {metric.label.lower()}: {text.meaning(row)}."
    span = text.span(row["ratio_low"], row["ratio_high"]).strip("()")
    seen = text.detectable(row["detectable"])
    return (
        f"{row['short']} (A/A), {metric.label.lower()}: chance alone gives {span} here; below "
        f"{seen} this run sees nothing."
    )
