"""What only some runs have: clusters beside their limit, neighbours, a grid of cluster sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from . import text
from .metrics import DASH
from .tables import Tables

# A grid has at least so many sizes of a cluster; fewer are read off the tables of the cells.
GRID = 4
SIZE = ("servers", "workers")


@dataclass(frozen=True)
class Table:
    """A table for people: `rows` are texts, `numbers` the columns that align right.

    `brief` is how many of the columns a terminal has room for.
    """

    title: str
    text: str
    head: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    numbers: set[int]
    brief: int = 9


def tables(found: Tables) -> list[Table]:
    """Those that this run has data for."""
    return [table for table in (limits(found), grid(found), neighbours(found)) if table.rows]


def limits(found: Tables) -> Table:
    """A row a cell of several workers: its throughput beside what the measured link allows."""
    rows = []
    for name, group in _cells(found, "of_limit"):
        mean = group.mean(numeric_only=True)
        rows.append(
            (
                *name,
                _quantity(found, mean, "throughput"),
                _quantity(found, mean, "limit"),
                _share(mean["of_limit"]),
                _quantity(found, mean, "goodput"),
                _quantity(found, mean, "exchange"),
                _quantity(found, mean, "skew"),
                f"{mean['straggler']:.2f}",
            )
        )
    return Table(
        "How near the link",
        "The throughput of all workers, beside what one worker's computing and the bytes on the "
        "link allow at the goodput that was measured on it just before. Skew: how far apart the "
        "workers began. Straggler: the slowest worker's median step over that of the middle one.",
        (
            "Platform",
            "Case",
            "Cluster",
            "Limit",
            "Share",
            "Goodput",
            "Exchange",
            "Skew",
            "Straggler",
        ),
        rows,
        set(range(2, 9)),
        brief=6,
    )


def grid(found: Tables) -> Table:
    """The best and the worst run time of each way to place a cluster (WSU 2018)."""
    rows = []
    usable = found.usable
    if {"run_time", "placement", *SIZE} <= set(usable) and _sizes(usable) >= GRID:
        cells = usable.groupby(["arm", "distribution", "placement", *SIZE], as_index=False).agg(
            dict.fromkeys(("run_time", "time_delta", "accuracy_max", "accuracy_std"), "mean")
        )
        for (distribution, placement), group in cells.groupby(["distribution", "placement"]):
            several = distribution != "none"
            ordered = group.sort_values("run_time")
            for what, row in zip(
                ("best", "worst"), (ordered.iloc[0], ordered.iloc[-1]), strict=True
            ):
                rows.append(
                    (
                        f"{placement} {distribution}" if several else "alone",
                        what if several else DASH,
                        str(row["servers"]) if several else DASH,
                        str(row["workers"]),
                        _quantity(found, row, "run_time"),
                        _quantity(found, row, "time_delta"),
                        f"{row['accuracy_max']:.4f}",
                        f"{row['accuracy_std']:.4f}",
                    )
                )
                if not several:
                    break
    return Table(
        "Best and worst of the grid",
        "Means over the trials of each size. The time delta is that between two logs of a worker.",
        ("Cluster", "", "Servers", "Workers", "Run time", "Time delta", "Max accuracy", "SD"),
        rows,
        set(range(2, 8)),
    )


def _sizes(trials: pd.DataFrame) -> int:
    return len(trials[list(SIZE)].drop_duplicates())


def neighbours(found: Tables) -> Table:
    """A row a cell beside a background job: how much of its window the job ran, and how fast."""
    rows = []
    for name, group in _cells(found, "overlap"):
        rows.append((*name, _share(group["overlap"].min()), ", ".join(sorted(group["neighbour"]))))
    return Table(
        "Beside a neighbour",
        "The smallest share of a measured window in which the neighbour was measured too, and its "
        "rate in the window of each trial. Below 95 % a trial is void.",
        ("Platform", "Case", "Overlap", "Rate of the neighbour"),
        rows,
        {2},
    )


def _cells(found: Tables, name: str) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """Cells that have the value `name`: platform, case, and their usable trials."""
    usable = found.usable
    if name not in usable:
        return []
    having = usable[usable[name].notna()]
    return [
        ((str(keys[0]), str(keys[1])), group)
        for keys, group in having.groupby(["short", "case"], sort=False)
    ]


def _quantity(found: Tables, values: pd.Series, name: str) -> str:
    return text.quantity(values[name], found.metric(name).unit)


def _share(value: float) -> str:
    return f"{value:.0%}".replace("%", " %")
