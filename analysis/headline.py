"""What a run answers first: its headline metrics, and a sentence for each arm."""

from __future__ import annotations

from . import text
from .metrics import Metric
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
    """One sentence for each arm and workload: what it does to the workload's first headline metric,
    over all cases. Of very many arms, as of a grid, only the best and the worst."""
    found = headline(tables)
    if tables.overall.empty or not found:
        return []
    leads = [metric for metric in found if metric.name in tables.loaded.metrics.leads]
    return [line for metric in leads or found[:1] for line in _sentences(tables, metric)]


def _sentences(tables: Tables, metric: Metric) -> list[str]:
    found = tables.overall[tables.overall["metric"] == metric.name]
    if len(found) > MOST:
        found = found.sort_values("ratio").iloc[[0, -1]]
    return [
        f"{row['short']}: {metric.label.lower()} "
        f"{text.change(row['ratio'], row['ratio_low'], row['ratio_high'])}: {row['verdict']}."
        for row in records(found)
    ]
