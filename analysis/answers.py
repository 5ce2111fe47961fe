"""What a run answers first: its headline metrics, and a sentence for each side."""

from __future__ import annotations

from . import text
from .metrics import HEADLINE, get
from .tables import Tables, records

MOST = 12


def headline(tables: Tables) -> list[str]:
    """The headline metrics that are compared, in their order."""
    compared = set(tables.comparisons["metric"]) if len(tables.comparisons) else set()
    return [name for name in HEADLINE if name in compared]


def available(tables: Tables) -> list[str]:
    """The headline metrics that this run has."""
    return [name for name in HEADLINE if name in set(tables.summary["metric"])]


def baseline_name(tables: Tables) -> str:
    """What everything is compared with: `native/host`."""
    trials = tables.trials
    return ", ".join(sorted(set(trials.loc[trials["is_baseline"], "short"]))) or "no baseline"


def sentences(tables: Tables) -> list[str]:
    """One sentence a side: what it does to the first headline metric, over all cases.

    Of very many sides, as of a grid, only the best and the worst.
    """
    if tables.overall.empty or not headline(tables):
        return []
    name = headline(tables)[0]
    found = tables.overall[tables.overall["metric"] == name]
    if len(found) > MOST:
        found = found.sort_values("ratio").iloc[[0, -1]]
    rows = records(found)
    return [
        f"{row['short']}: {get(name).label.lower()} "
        f"{text.change(row['ratio'], row['ratio_low'], row['ratio_high'])}: {row['verdict']}."
        for row in rows
    ]
