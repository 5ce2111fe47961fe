"""What a run answers, as lines of plain text for a terminal. Imports nothing that draws."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import Any, Literal

from . import headline as first
from . import overlays, scenarios, text
from . import tables as report_tables
from .shown import shown
from .stats import judged, stands_alone
from .tables import Tables

HEAD = ("platform", "case", "change", "95 % interval", "could see", "pairs", "verdict")
NUMBERS = {2, 3, 4, 5}
MOST_ROWS = 40  # a screen; a table on the page can be searched


def summary(tables: Tables) -> list[str]:
    """What the run answers, as lines of at most 100 columns."""
    run = tables.loaded.run
    lines = [f"{run.name} ({run.run})"]
    if run.demonstration:
        lines.append("a demonstration: its figures are no basis for a decision")
    lines += tables.notices()
    lines += [part for line in first.sentences(tables) for part in textwrap.wrap(line, text.WIDTH)]
    lines += figure(tables)
    for title, rows in answers(tables):
        lines += ["", title]
        if len(rows) > MOST_ROWS:
            lines.append(f"{len(rows)} comparisons: they are on the page")
            continue
        lines += text.table(HEAD, rows, NUMBERS, wrap=True)
    if tables.comparisons.empty and len(tables.usable):
        lines += ["", *means(tables)]
    for found in [*overlays.tables(tables), *scenarios.tables(tables)]:
        rows, last = [row[: found.brief] for row in found.rows], found.brief
        numbers = {column for column in found.numbers if column < last}
        lines += ["", found.title, *text.table(found.head[:last], rows, numbers, wrap=True)]
    lines += ["", *ended(tables)]
    overhead = report_tables.overhead(tables.loaded)
    return [shown(line, keep="") for line in [*lines, *filter(None, [overhead])]]


def main_table(tables: Tables, style: Literal["latex", "markdown"]) -> list[str]:
    """The comparisons of the headline metrics as a table for a paper or for notes."""
    found = [(title, *row) for title, rows in answers(tables) for row in rows]
    columns = {1 + number for number in NUMBERS}
    return [shown(line) for line in text.STYLES[style](("metric", *HEAD), found, columns)]


def figure(tables: Tables) -> list[str]:
    """The first headline metric of each arm, over all cases, as intervals beside no change."""
    rows = report_tables.records(tables.overall) if len(tables.overall) else []
    leads = tables.loaded.metrics.leads
    drawn = [r for r in rows if judged(r) and r["metric"] in leads]
    drawn = sorted(drawn, key=lambda row: bool(row["is_control"]))
    drawn = [row for row in drawn if all(map(math.isfinite, _interval(row)))]
    if not drawn or len(drawn) > MOST_ROWS:
        return []
    ends = [1.0, *(end for row in drawn for end in _interval(row))]
    labels = [row["short"] for row in drawn]
    if len({row["metric"] for row in drawn}) > 1:
        labels = [f"{row['short']}, {tables.metric(row['metric']).label.lower()}" for row in drawn]
    return ["", *text.intervals(labels, [_interval(row) for row in drawn], min(ends), max(ends))]


def _interval(row: Mapping[Any, Any]) -> tuple[float, float, float]:
    return row["ratio_low"], row["ratio"], row["ratio_high"]


def answers(tables: Tables) -> list[tuple[str, list[tuple[str, ...]]]]:
    """For each headline metric its title and a row a comparison, texts for people."""
    found = []
    for metric in first.headline(tables):
        rows = tables.comparisons[tables.comparisons["metric"] == metric.name]
        title = f"{metric.label} against {first.baseline_name(tables)}"
        found.append((title, [_answer(row) for row in report_tables.records(rows)]))
    return found


def means(tables: Tables) -> list[str]:
    """Without anything to compare: the mean of each headline metric."""
    rows = []
    for metric in first.available(tables):
        for _, row in tables.summary[tables.summary["metric"] == metric.name].iterrows():
            value = text.quantity(row["mean"], metric.unit)
            rows.append((row["short"], row["case"], metric.label, value, str(row["n"])))
    return text.table(("platform", "case", "metric", "mean", "trials"), rows, {3, 4})


def ended(tables: Tables) -> list[str]:
    """How many trials ended how, and why each lost one was lost."""
    found = tables.trials["status"].value_counts()
    lines = [", ".join(f"{found.get(s, 0)} {s}" for s in ("ok", "failed", "void")) + " trials"]
    lines += [f"flags: {tables.flag_counts()}"] if len(tables.flags) else []
    for _, row in tables.lost.iterrows():
        lines.append(f"{row['status']}: {row['trial']} ({row['cause']}): {row['message']}")
    return [line if len(line) <= text.WIDTH else line[: text.WIDTH - 1] + "…" for line in lines]


def verdict(row: Mapping[Any, Any]) -> str:
    """A verdict with what it needs, or with what is left of it beside the other cells."""
    if not judged(row):
        return text.meaning(row)
    if row.get("is_control"):
        return text.chance(row)
    doubts = ["alone"] * stands_alone(row) + ["confounded"] * bool(row.get("confounds"))
    return f"{row['verdict']} ({', '.join(doubts)})" if doubts else str(row["verdict"])


def _answer(row: Mapping[Any, Any]) -> tuple[str, ...]:
    return (
        row["short"],
        row["case"],
        text.percent(row["ratio"]),
        text.span(row["ratio_low"], row["ratio_high"]).strip("()") or "none",
        text.detectable(row["detectable"]),
        f"{row['n']} of {row['planned']}",
        verdict(row),
    )
