"""What only some runs have: clusters beside their limit, neighbours, a grid of cluster sizes, what
disturbed them, the speed of their hosts, rebuilds of their testbed, hosts that were made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from . import covariate, disturbed, duets, inference, lives, rebuilds, text, variance
from .metrics import DASH
from .tables import Tables, records
from .variance import Components

# A grid has at least so many sizes of a cluster; fewer are read off the tables of the cells.
GRID = 4
SIZE = ("servers", "workers")
NO = {"ratio": math.nan, "ratio_low": math.nan, "ratio_high": math.nan, "n": 0}


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
    kinds = (
        *(limits, grid, neighbours, beside_each_other, used, with_all, at_equal_speed),
        *(between_rebuilds, next_hour, made),
    )
    return [table for table in (kind(found) for kind in kinds) if table.rows]


def used(found: Tables) -> Table:
    """A row an arm: how often the rule struck it, and who used the CPUs beside its trials."""
    known = found.struck[list(disturbed.USERS)].notna().any(axis=None)
    rows = [
        (
            *(row["short"], str(row["attempts"]), str(row["void"]), _share(row["share"])),
            *(f"{row[name]:.3f}" if pd.notna(row[name]) else DASH for name in disturbed.USERS),
        )
        for row in records(found.struck)
        if known or row["void"]
    ]
    return Table(
        "What else the hosts did",
        "How many attempts each arm had, and how many of them the experiment's rule voided since "
        "something else disturbed them; and how many CPUs others, the platform's own processes "
        "(engine, overlay daemon) and Strata used beside the trials that count, on average.",
        ("Platform", "Attempts", "Void", "Share", "Others", "Platform's", "Strata's"),
        rows,
        {1, 2, 3, 4, 5, 6},
    )


def with_all(found: Tables) -> Table:
    """A row an arm and headline metric: its answer with and without what was disturbed."""
    rows = []
    for row in records(found.without_rule):
        of = found.overall
        if found.metric(row["metric"]).headline:
            own = of[(of["arm"] == row["arm"]) & (of["metric"] == row["metric"])] if len(of) else of
            rows.append(
                (
                    *(row["short"], found.metric(row["metric"]).label),
                    *(text for one in (records(own)[:1] or [NO]) for text in _answer(one)),
                    *_answer(row),
                )
            )
    return Table(
        "With and without the disturbed trials",
        "Over all cases: as it stands above, and as it would be with the first attempt of every "
        "trial, had there been no rule. Where the two differ, what disturbed the run decides.",
        ("Platform", "Metric", "Without", "95 %", "Pairs", "With", "95 %", "Pairs"),
        rows,
        {2, 3, 4, 5, 6, 7},
    )


def at_equal_speed(found: Tables) -> Table:
    """A row an arm and headline metric: the plain answer, and with the speed of the hosts."""
    rows = []
    for row in records(found.overall):
        metric = found.metric(row["metric"])
        fits = covariate.adjusted(found.trials, metric.name) if metric.headline else {}
        if row["arm"] in fits:
            effect, slope = fits[row["arm"]]
            ends = {"ratio_low": inference.ratio(effect.low)}
            ends |= {"ratio_high": inference.ratio(effect.high), "n": row["n"]}
            plain, other = _answer(row), _answer({"ratio": inference.ratio(effect.mean), **ends})
            rows.append((row["short"], metric.label, *plain[:2], *other[:2], f"{slope:+.2f}"))
    return Table(
        "With the reference burst as covariate",
        "Over all cases: the plain answer, and the one at equal speed of the hosts, as a short "
        "burst of work outside of the platform told it right before and after each trial. The "
        "slope says by how many percent the metric changes with one percent of that speed. It is "
        "a figure beside the answer, and no verdict.",
        ("Platform", "Metric", "Plain", "95 %", "At equal speed", "95 %", "Slope"),
        rows,
        {2, 3, 4, 5, 6},
    )


def _answer(row: Mapping[Any, Any]) -> tuple[str, str, str]:
    span = text.span(row["ratio_low"], row["ratio_high"]).strip("()") or "none"
    return text.percent(row["ratio"]), span, str(row["n"])


def between_rebuilds(found: Tables) -> Table:
    """A row a cell, and a row its ratios, for each leading metric."""
    rows = [
        (
            *(one.short, one.case, _of(found, one), _sd(one.parts.between), _sd(one.parts.within)),
            *(_share(one.parts.share.value), _share_span(one.parts.share)),
            *(f"{one.parts.rebuilds} of {one.parts.repeats:.3g}", _mean(one.parts)),
        )
        for one in _varying(found)
    ]
    return Table(
        "Between rebuilds of the testbed, and within them",
        "Standard deviations of the logarithm: what the trials of one rebuild have in common, and "
        "what each has for itself, with 95 % intervals; the share of a single value's variance "
        "that is between rebuilds; and how wide the 95 % interval of the mean is that holds for a "
        "testbed built once more, since in it a rebuild is one observation. Changes are those "
        "against the baseline.",
        ("Platform", "Case", "Of", "Between", "Within", "Share", "95 %", "Rebuilds", "Mean ±"),
        rows,
        {3, 4, 5, 6, 7, 8},
        brief=6,
    )


def next_hour(found: Tables) -> Table:
    """A row for each of these: where an hour more of measuring buys most."""
    cost = rebuilds.cost(found.loaded)
    rows = []
    for one in _varying(found):
        told = variance.next_hour(one.parts, cost)
        if told:
            ends = (told.now, told.best, told.same, told.staying)
            rows.append(
                (
                    *(one.short, one.case, _of(found, one)),
                    f"{told.rounds:.0f}" if math.isfinite(told.rounds) else "no rebuild",
                    *(text.detectable(math.expm1(end)) for end in ends),
                )
            )
    return Table(
        "Where the next hour buys most",
        f"A rebuild took {cost.rebuild:.0f} s here, a round {cost.round:.0f} s. How many rounds on "
        "each rebuild make the mean known best for the time, and its standard error: now, after "
        "an hour with so many, after one with as many as in this run, and after one without a "
        "rebuild. The components are estimates, so this is one, too.",
        ("Platform", "Case", "Of", "Rounds", "Now", "Best", "As here", "No rebuild"),
        rows,
        {3, 4, 5, 6, 7},
    )


def made(found: Tables) -> Table:
    """A row an instance of a host that a provider made: how long it took to be there, and to go."""
    rows = [
        (
            *(row["host"], row["provider"], row["instance"]),
            *(_took(row[column]) for column in lives.COLUMNS.values()),
        )
        for row in records(found.lives)
    ]
    return Table(
        "Hosts that were made",
        "From asking the provider for a host until it was active, as the provider says, and until "
        "it let Strata in; and how long taking all hosts of the testbed away took, with the look "
        "for what is left. What is not known, or has not come yet, is a dash.",
        ("Host", "Provider", "Instance", "Active", "Reached", "Gone"),
        rows,
        {3, 4, 5},
    )


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if math.isfinite(seconds) else DASH


def _varying(found: Tables) -> list[rebuilds.Varying]:
    return rebuilds.varying(found.loaded, found.trials, list(found.loaded.metrics.leads))


def _of(found: Tables, one: rebuilds.Varying) -> str:
    label = found.metric(one.metric).label.lower()
    return f"change in {label}" if one.against else label


def _sd(part: variance.Part) -> str:
    ends = [text.detectable(math.expm1(math.sqrt(end))) for end in (part.low, part.high)]
    value = text.detectable(math.expm1(math.sqrt(part.value)))
    return f"{value} ({ends[0].removesuffix(' %')} … {ends[1]})"


def _share_span(part: variance.Part) -> str:
    return f"{_share(part.low).removesuffix(' %')} … {_share(part.high)}"


def _mean(parts: Components) -> str:
    return text.detectable(math.expm1(parts.mean.half_width))


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


def beside_each_other(found: Tables) -> Table:
    """A row for each two arms of a duet, in both directions: what one takes from the other."""
    rows = []
    for metric in found.loaded.metrics.leads:
        for one in duets.taken(found.trials, metric):
            ends = {"ratio": inference.ratio(one.effect.mean), "n": one.rounds}
            ends |= {"ratio_low": inference.ratio(one.effect.low)}
            ends |= {"ratio_high": inference.ratio(one.effect.high)}
            rows.append((one.short, one.beside, found.metric(metric).label, *_answer(ends)))
    return Table(
        "What they take from each other",
        "How much faster or slower the trials of each arm were beside the other than beside their "
        "own like (A/A) in the same round, over all cases. So much of a change may be what the one "
        "takes from the other: memory bandwidth, caches, frequency. What two equal ones take from "
        "each other is in both, and in no ratio.",
        ("Platform", "Beside", "Metric", "Change", "95 %", "Rounds"),
        rows,
        {3, 4, 5},
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
