"""The page of a run: one HTML file that needs nothing else, from the frames of `tables`."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from schema.fingerprint import field

from . import figures, overlays, scenarios, text
from . import tables as report_tables
from .headline import asked, available, baseline_name, controls, headline
from .metrics import DASH, Metric, Scale, scale
from .shown import shown
from .stats import judged, stands_alone
from .tables import Tables, records

TEMPLATES = Path(__file__).parent / "templates"
# The plotting library, whose origin and licences are beside it, and what draws with it.
SCRIPTS = ("vendor/plot.min.js", "page.js")
MARKS = {"degraded": "▼", "improved": "▲", "no credible change": "=", "too few trials": "?",
         "emulated": "?"}  # fmt: skip
# What stays on one line of a cell: a number with its unit, and an interval.
WHOLE = re.compile(r"\? |\d (%|B|s|ms|µs)(?!\w)|\([^()…]{1,20}…[^()…]{1,20}\)")
# Rows of the tables of all that is no headline; more are in the files only.
MOST_ROWS = 600
# By the place of an arm; `page.js` has the same as symbols.
GLYPHS = "●■▲◆✚★Y"


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
    environment.filters["whole"] = _whole
    environment.filters["glyph"] = lambda place: GLYPHS[place % len(GLYPHS)]
    return environment.get_template(template).render(values)


def _whole(cell: str) -> Markup:
    """A cell of a table that breaks its line between figures and not within one."""
    text = str(escape(shown(cell)))
    return Markup(WHOLE.sub(lambda found: found[0].replace(" ", "&nbsp;"), text))  # noqa: S704 - escaped


def _seen(value: Any) -> Any:
    """Every value that is not markup of ours, with nothing in it that is not seen."""
    return shown(value) if type(value) is str else value


def context(tables: Tables) -> dict[str, Any]:
    """Everything the template shows, as texts."""
    loaded = tables.loaded
    drawn = figures.document(tables)
    scripts = [(TEMPLATES / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return {
        # No script runs but these two, whatever a text of the run may hold.
        "policy": " ".join(f"'sha256-{_sha256(script)}'" for script in scripts),
        "scripts": [Markup(script) for script in scripts],  # noqa: S704 - ours
        "data": Markup(figures.embedded(drawn)),  # noqa: S704 - escaped there
        "place": {cell["id"]: place for place, cell in enumerate(drawn["cells"])},
        "phases": drawn["phase_names"],
        "run": loaded.run,
        "title": loaded.run.experiment.get("title") or loaded.run.name,
        "description": loaded.run.experiment.get("description") or "",
        "notices": [each for each in tables.notices() if not each.startswith("Confounded")],
        "confounds": [each for each in tables.notices() if each.startswith("Confounded")],
        "baseline": baseline_name(tables),
        "asked": asked(tables),
        "controls": controls(tables),
        "answers": answers(tables),
        "metrics": [metric.label for metric in headline(tables)],
        "folders": dict(zip(tables.trials["trial"], tables.trials["folder"], strict=True)),
        "lost": records(tables.lost),
        "cells": cells(tables),
        "others": [_values(tables, metric) for metric in _others(tables)],
        "most_rows": MOST_ROWS,
        "values": [_values(tables, metric) for metric in _shown(tables)],
        "degradation": degradation(tables),
        "overlays": overlays.tables(tables),
        "scenarios": scenarios.tables(tables),
        "flags": flags(tables),
        "flag_counts": tables.flag_counts(),
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
    rows = []
    for arm, group in tables.overall.groupby("arm", sort=False):
        by_metric = {row["metric"]: row for row in records(group)}
        entries = [
            _answer(metric, by_metric[metric.name])
            for metric in headline(tables)
            if metric.name in by_metric
        ]
        name = group["short"].iloc[0]
        rows.append({"arm": shown(str(name)), "place": tables.order.index(str(arm)),
                     "entries": entries,
                     "is_control": bool(group["is_control"].all())})  # fmt: skip
    return sorted(rows, key=lambda row: row["is_control"])


def cells(tables: Tables) -> list[dict[str, Any]]:
    """A row a cell: how its trials ended, and links to their records."""
    rows = records(tables.counts)
    place = {arm: i for i, arm in enumerate(tables.order)}
    rows.sort(key=lambda row: (row["case"], place[row["arm"]], row["cell"]))
    columns = ["trial", "repetition", "status"]
    trials = {
        cell: records(group[columns].astype({"repetition": str}))
        for cell, group in tables.trials.groupby("cell")
    }
    return [{**row, "trials": trials[row["cell"]]} for row in rows]


def degradation(tables: Tables) -> list[dict[str, Any]]:
    """A table a metric: both means, change, difference, verdict."""
    found = []
    for metric in tables.loaded.metrics:
        rows = tables.comparisons
        rows = rows[rows["metric"] == metric.name] if len(rows) else rows
        if len(rows):
            own = tables.summary[tables.summary["metric"] == metric.name]
            means = dict(zip(own["cell"], own["mean"], strict=True))
            how = scale(means.values(), metric.unit)
            shown = [_comparison(row, means, how) for row in records(rows)]
            found.append({"title": metric.label, "better": metric.better, "unit": how.unit,
                          "headline": metric.headline, "count": len(shown),
                          "rows": shown})  # fmt: skip
    return found


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
    told = judged(row)
    return {
        "metric": known.label,
        "change": text.percent(row["ratio"]) if told else _instead(row),
        "span": text.span(row["ratio_low"], row["ratio_high"]) if told else "",
        "verdict": row["verdict"],
        "meaning": _meaning(row),
        "model": _model(row) if told else "",
        "confounds": row["confounds"],
        "cases": row["cases"],
        "counted": f"{row['n']} of {row['planned']} pairs",
    }


def _instead(row: dict[str, Any]) -> str:
    return "emulated" if row["verdict"] == "emulated" else text.more(row["needed"])


def _meaning(row: dict[str, Any]) -> str:
    """Beside the figures of a comparison; of an A/A comparison instead of a verdict."""
    if not judged(row):
        return ""
    if row["is_control"]:
        return text.chance(row)
    return text.meaning(row) if row["verdict"] == "no credible change" else ""


def _model(row: dict[str, Any]) -> str:
    """The sensitivity figure, where there is one."""
    if not math.isfinite(row["model_ratio"]):
        return ""
    return text.change(row["model_ratio"], row["model_low"], row["model_high"])


def _comparison(row: dict[str, Any], means: dict[str, float], how: Scale) -> dict[str, Any]:
    difference = row["difference"]
    ours, theirs = (means.get(row[cell], math.nan) for cell in ("cell", "cell_baseline"))
    sign = "+" if difference > 0 else text.MINUS
    return {
        "case": row["case"], "short": row["short"], "cell": row["cell"],
        "n": f"{row['n']} of {row['planned']}",
        "mean": how.text(ours), "baseline": how.text(theirs),
        "change": text.percent(row["ratio"]), "median": text.percent(row["ratio_median"]),
        "span": text.span(row["ratio_low"], row["ratio_high"]).strip("()"),
        "seen": text.detectable(row["detectable"]),
        "beside": "does not hold beside the other cells (Holm)" if stands_alone(row) else "",
        "needed": text.more(row["needed"]) if row["needed"] else "",
        "confounds": row["confounds"],
        "chance": _meaning(row) if row["is_control"] else "",
        "difference": f"{sign}{how.text(abs(difference))}" if math.isfinite(difference) else DASH,
        "verdict": row["verdict"],
    }  # fmt: skip


def _values(tables: Tables, known: Metric) -> dict[str, Any]:
    """The summary of one metric, a row a cell, in one scale."""
    rows = tables.summary[tables.summary["metric"] == known.name]
    how = scale(rows["max"], known.unit)
    parts = ("mean", "low", "high", "median", "min", "max", "sd")
    shown = [
        {"case": row["case"], "short": row["short"], "cell": row["cell"], "n": row["n"],
         **{part: how.text(row[part]) for part in parts}}
        for row in records(rows)
    ]  # fmt: skip
    return {"title": known.label, "unit": how.unit, "rows": shown, "count": len(shown)}


def _shown(tables: Tables) -> list[Metric]:
    """The metrics whose summaries are open: the headline's, and the first step against later."""
    last = report_tables.FIRST_OVER_LATER
    return available(tables) + [m for m in (last,) if m.name in set(tables.summary["metric"])]


def _others(tables: Tables) -> list[Metric]:
    found, shown = set(tables.summary["metric"]), _shown(tables)
    return [m for m in tables.loaded.metrics if m.name in found and m not in shown]


def _texts(frame: pd.DataFrame, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return records(frame.assign(**{name: [_fact(v, "") for v in frame[name]] for name in names}))


def _fact(value: Any, unit: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and unit:
        return text.quantity(float(value), unit)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _sha256(script: str) -> str:
    """As a content security policy wants it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
