"""The page of a run: one HTML file that needs nothing else, from the frames of `tables`."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from schema.fingerprint import field

from . import figures, scenarios, text
from . import tables as report_tables
from .headline import available, baseline_name, headline, sentences
from .metrics import DASH, Metric, Scale, scale
from .shown import shown
from .stats import stands_alone
from .tables import Tables, records

# More arms than this cannot be told apart in a figure; the tables have them all.
MOST_ARMS = 24
MARKS = {"degraded": "▼", "improved": "▲", "no credible change": "●", "too few trials": "?"}


@dataclass(frozen=True)
class Figure:
    """A group of panels with what they show."""

    title: str
    caption: str
    panels: list[Markup]
    key: list[tuple[str, str]]


def render(tables: Tables) -> str:
    """The page as HTML. The same tables give the same text."""
    return fill("report.html.j2", context(tables))


def fill(template: str, values: dict[str, Any]) -> str:
    """A template with values, all of them escaped but Markup."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )
    environment.filters["mark"] = MARKS.__getitem__
    environment.filters["folder"] = lambda trial: values.get("folders", {}).get(trial, trial)
    return environment.get_template(template).render(values)


def _seen(value: Any) -> Any:
    """Every value that is not markup of ours, with nothing in it that is not seen."""
    return shown(value) if type(value) is str else value


def context(tables: Tables) -> dict[str, Any]:
    """Everything the template shows, as texts."""
    loaded = tables.loaded
    return {
        "run": loaded.run,
        "title": loaded.run.experiment.get("title") or loaded.run.name,
        "description": loaded.run.experiment.get("description") or "",
        "notices": [each for each in tables.notices() if not each.startswith("Confounded")],
        "confounds": [each for each in tables.notices() if each.startswith("Confounded")],
        "baseline": baseline_name(tables),
        "sentences": sentences(tables),
        "answers": answers(tables),
        "metrics": [metric.label for metric in headline(tables)],
        "folders": dict(zip(tables.trials["trial"], tables.trials["folder"], strict=True)),
        "lost": records(tables.lost),
        "cells": cells(tables),
        "others": [_values(tables, metric) for metric in _others(tables)],
        "values": [_values(tables, metric) for metric in _shown(tables)],
        "degradation": degradation(tables),
        "scenarios": scenarios.tables(tables),
        "figures": drawn(tables),
        "flags": flags(tables),
        "unjudged": tables.unjudged,
        "flops": flops(tables),
        "drift": _texts(loaded.drift, ("reference", "now")),
        "fingerprints": fingerprints(tables),
        "overhead": report_tables.overhead(loaded),
    }


def answers(tables: Tables) -> list[dict[str, Any]]:
    """A row for each arm in the table on top: an entry for each headline metric, over all cases."""
    if tables.overall.empty:
        return []
    tint = figures.colours(tables.order)
    rows = []
    for arm, group in tables.overall.groupby("arm", sort=False):
        by_metric = {row["metric"]: row for row in records(group)}
        entries = [
            _answer(metric, by_metric[metric.name])
            for metric in headline(tables)
            if metric.name in by_metric
        ]
        name = group["short"].iloc[0]
        rows.append({"arm": shown(str(name)), "colour": tint[str(arm)], "entries": entries,
                     "is_control": bool(group["is_control"].all())})  # fmt: skip
    return sorted(rows, key=lambda row: row["is_control"])


def cells(tables: Tables) -> list[dict[str, Any]]:
    """A row a cell: how its trials ended, and links to their records."""
    rows = records(tables.counts)
    place = {arm: i for i, arm in enumerate(tables.order)}
    rows.sort(key=lambda row: (row["case"], place[row["arm"]], row["cell"]))
    return [{**row, "trials": _trials(tables, row["cell"])} for row in rows]


def degradation(tables: Tables) -> list[dict[str, Any]]:
    """A table a metric: both means, change, difference, verdict, and the trials behind them."""
    found = []
    for metric in tables.loaded.metrics:
        rows = tables.comparisons
        rows = rows[rows["metric"] == metric.name] if len(rows) else rows
        if len(rows):
            means = tables.summary.loc[tables.summary["metric"] == metric.name, "mean"]
            how = scale(means, metric.unit)
            shown = [_comparison(tables, row, how) for row in records(rows)]
            found.append({"title": metric.label, "better": metric.better, "unit": how.unit,
                          "headline": metric.headline, "rows": shown})  # fmt: skip
    return found


def drawn(tables: Tables) -> list[Figure]:
    """All figures that this run has data for; none for a run of very many arms."""
    usable, order = tables.usable, tables.order
    if len(order) > MOST_ARMS:
        return []
    tint = figures.colours(order)
    short = tables.trials.drop_duplicates("arm").set_index("arm")["short"]
    key = [(str(short[arm]), tint[arm]) for arm in order]
    first = available(tables)[:1]
    groups = [
        Figure("Change against the baseline",
               "Geometric mean of the ratios within pairs, with its 95 % interval; the line marks "
               "no change. Cases with too few pairs for a verdict are left out.",
               _marked(figures.changes(tables.comparisons, headline(tables), tint)), key),
        *(Figure(f"{metric.label} by platform",
               "Dots are trials, the bar is their mean with its 95 % interval. "
               "The axis does not start at zero.",
               _marked(figures.values(usable, tables.summary, metric, tint)), key)
          for metric in first),
        Figure("Step by step",
               "Duration of each step: the median over trials, single trials faint behind it. "
               "Warm-up is shaded; a first step beyond the top is written out.",
               _marked(figures.steps(tables.steps, usable, tint)), key),
        Figure("Where the time goes",
               "Mean seconds of each part, from launch to the end. The matmul probe, which runs "
               "after the measurement, is not part of it.",
               _marked(figures.phases(usable, order)), list(figures.PHASES.values())),
        Figure("Use of the host",
               "Median over trials. Solid: the whole host. Dashed: the workload alone.",
               _marked(figures.usage(tables.usage, usable, tint)), key),
    ]  # fmt: skip
    return [group for group in groups if group.panels]


def flags(tables: Tables) -> list[dict[str, Any]]:
    """A row a cell and flag: how many of its trials bear it, and what each says."""
    rows = []
    for (case, short, name), group in tables.flags.groupby(["case", "short", "name"]):
        details = records(group[["trial", "detail"]])
        rows.append({"case": case, "short": short, "name": name, "count": len(group),
                     "details": details})  # fmt: skip
    return rows


def flops(tables: Tables) -> list[dict[str, str]]:
    """A row a cell: FLOP/s that training achieved beside those of a large matmul."""
    rows = tables.summary[tables.summary["metric"].isin(["flops", "matmul_flops"])]
    found = []
    for keys, group in rows.groupby(["case", "arm", "short"], sort=False):
        mean = group.set_index("metric")["mean"]
        if {"flops", "matmul_flops"} <= set(mean.index):
            share = mean["flops"] / mean["matmul_flops"]
            found.append({
                "case": str(keys[0]), "short": str(keys[2]),
                "flops": text.quantity(mean["flops"], "FLOP/s"),
                "matmul": text.quantity(mean["matmul_flops"], "FLOP/s"),
                "share": f"{share:.1%}".replace("%", " %"),
            })  # fmt: skip
    return found


def fingerprints(tables: Tables) -> list[dict[str, Any]]:
    """A table a host of what it is made of, with labels for people."""
    found = []
    for host, values in tables.loaded.hosts.items():
        rows = [(field(key).label, _fact(value, field(key).unit)) for key, value in values.items()]
        found.append({"host": host, "rows": rows})
    return found


def _answer(known: Metric, row: dict[str, Any]) -> dict[str, Any]:
    """No figure in large type without an interval that a verdict stands on."""
    judged = row["verdict"] != "too few trials"
    return {
        "metric": known.label,
        "change": text.percent(row["ratio"]) if judged else text.more(row["needed"]),
        "span": text.span(row["ratio_low"], row["ratio_high"]) if judged else "",
        "verdict": row["verdict"],
        "meaning": text.meaning(row) if row["verdict"] == "no credible change" else "",
        "model": _model(row) if judged else "",
        "confounds": row["confounds"],
        "cases": row["cases"],
        "counted": f"{row['n']} of {row['planned']} pairs",
    }


def _model(row: dict[str, Any]) -> str:
    """The sensitivity figure, where there is one."""
    if not math.isfinite(row["model_ratio"]):
        return ""
    return text.change(row["model_ratio"], row["model_low"], row["model_high"])


def _comparison(tables: Tables, row: dict[str, Any], how: Scale) -> dict[str, Any]:
    name, difference = row["metric"], row["difference"]
    ours, theirs = (_mean(tables, row[cell], name) for cell in ("cell", "cell_baseline"))
    sign = "+" if difference > 0 else text.MINUS
    return {
        "case": row["case"], "short": row["short"], "n": f"{row['n']} of {row['planned']}",
        "mean": how.text(ours), "baseline": how.text(theirs),
        "change": text.percent(row["ratio"]), "median": text.percent(row["ratio_median"]),
        "span": text.span(row["ratio_low"], row["ratio_high"]).strip("()"),
        "seen": text.detectable(row["detectable"]),
        "beside": "does not hold beside the other cells (Holm)" if stands_alone(row) else "",
        "needed": text.more(row["needed"]) if row["needed"] else "",
        "confounds": row["confounds"],
        "difference": f"{sign}{how.text(abs(difference))}" if math.isfinite(difference) else DASH,
        "verdict": row["verdict"],
        "trials": _trials(tables, row["cell"]),
        "baseline_trials": _trials(tables, row["cell_baseline"]),
    }  # fmt: skip


def _mean(tables: Tables, cell: str, name: str) -> float:
    rows = tables.summary
    found = rows.loc[(rows["cell"] == cell) & (rows["metric"] == name), "mean"]
    return float(found.iloc[0]) if len(found) else math.nan


def _values(tables: Tables, known: Metric) -> dict[str, Any]:
    """The summary of one metric, a row a cell, in one scale."""
    rows = tables.summary[tables.summary["metric"] == known.name]
    how = scale(rows["max"], known.unit)
    parts = ("mean", "low", "high", "median", "min", "max", "sd")
    shown = [
        {"case": row["case"], "short": row["short"], "n": row["n"],
         **{part: how.text(row[part]) for part in parts}}
        for row in records(rows)
    ]  # fmt: skip
    return {"title": known.label, "unit": how.unit, "rows": shown}


def _shown(tables: Tables) -> list[Metric]:
    """The metrics whose summaries are open: the headline's, and the first step against later."""
    last = report_tables.FIRST_OVER_LATER
    return available(tables) + [m for m in (last,) if m.name in set(tables.summary["metric"])]


def _others(tables: Tables) -> list[Metric]:
    found, shown = set(tables.summary["metric"]), _shown(tables)
    return [m for m in tables.loaded.metrics if m.name in found and m not in shown]


def _trials(tables: Tables, cell: str) -> list[dict[str, str]]:
    rows = tables.trials[tables.trials["cell"] == cell]
    return [{"trial": str(row["trial"]), "status": str(row["status"])} for row in records(rows)]


def _marked(panels: list[str]) -> list[Markup]:
    """SVG that `figures` made; matplotlib has escaped every text in it."""
    return [Markup(panel) for panel in panels]  # noqa: S704


def _texts(frame: pd.DataFrame, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return records(frame.assign(**{name: [_fact(v, "") for v in frame[name]] for name in names}))


def _fact(value: Any, unit: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and unit:
        return text.quantity(float(value), unit)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
