"""The data of the page's figures: one JSON document, which `templates/page.js` draws.

Cells, arms, cases and levels are told by their place in the lists of that name, and numbers have
five digits, so that thousands of trials fit into a page. Steps and samples are thinned for the eye;
the Parquet files of the run have all of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .headline import headline
from .load import canonical, usable
from .metrics import Metric, scale
from .shown import shown
from .stats import judged
from .tables import Tables, records

PHASES = {
    "startup": "Start-up",
    "first_step": "First step",
    "warmup": "Warm-up",
    "input": "Input",
    "compute": "Compute",
    "teardown": "Teardown",
}
DIGITS = 5
# Points of all lines of a figure together, and the fewest and most of one line.
POINTS, FEWEST, MOST = 3000, 16, 120
# Of all metrics together; the headline's are always there.
VALUES = 10_000
USED = ("cpu_busy", "workload_cpu", "memory_used", "workload_memory")


def document(tables: Tables) -> dict[str, Any]:
    """All that the figures show, in values that JSON has; every text in it is to be shown as text.

    `cells` stand in the order of arms in each case; `changes` is a row a comparison that has a
    verdict, or a row a comparison over all cases (`cell` is null); `trials` a row a measured trial,
    in the order of the plan.
    """
    run = tables.loaded.run
    cells = _cells(tables)
    levels = [json.loads(text) for text in cells["levels"]]
    factors = _factors(levels, run.factors)
    compared = [metric for metric in tables.loaded.metrics if metric.better]
    leads = headline(tables)
    compared = [*leads, *(metric for metric in compared if metric not in leads)]
    scales = {m.name: scale(_known(tables.usable, m.name), m.unit) for m in compared}
    compared = [metric for metric in compared if len(_known(tables.usable, metric.name))]
    compared = compared[: max(len(leads), VALUES // max(len(tables.trials), 1))]
    arms, cases = list(dict.fromkeys(cells["arm"])), list(dict.fromkeys(cells["case"]))
    names = cells.drop_duplicates("arm").set_index("arm")
    found = {
        "arms": [{"name": str(names["short"][arm]), "control": bool(names["is_control"][arm]),
                  "baseline": bool(names["is_baseline"][arm])} for arm in arms],
        "cases": ["" if case == "all" else case for case in cases],
        "factors": [{"name": name, "levels": found} for name, found in factors.items()],
        "cells": [
            {"id": row["cell"], "arm": arms.index(row["arm"]), "case": cases.index(row["case"]),
             "levels": [factors[name].index(_level(own, name)) for name in factors]}
            for row, own in zip(records(cells), levels, strict=True)
        ],
        "metrics": [
            {"name": metric.name, "label": metric.label, "unit": scales[metric.name].unit,
             "better": metric.better, "headline": metric in leads}
            for metric in compared
        ],
        "changes": _changes(tables, compared, cells, arms),
        "trials": _trials(tables, compared, cells),
        "steps": _steps(tables, cells),
        "usage": _usage(tables, cells),
        "phases": _phases(tables, cells),
        "phase_names": list(PHASES.values()),
    }  # fmt: skip
    return {**_seen(found), "again": again(run.experiment, run.testbed, levels)}


def embedded(found: dict[str, Any]) -> str:
    """A document as JSON that can stand in a <script>: no `<` ends it, and all of it is ASCII."""
    text = json.dumps(found, separators=(",", ":"), allow_nan=False)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _cells(tables: Tables) -> pd.DataFrame:
    """The measured cells, the baseline first in each case, by a number of their own."""
    trials = tables.trials[tables.trials["role"] == "measured"]
    place = {arm: i for i, arm in enumerate(tables.order)}
    found = trials.drop_duplicates("cell")
    return (
        found.assign(place=found["arm"].map(place))
        .sort_values(["place", "case", "cell"])
        .reset_index(drop=True)
    )


def _factors(levels: Sequence[dict[str, Any]], first: Sequence[str]) -> dict[str, list[str]]:
    """What varies between cells, with its levels as texts; `first` before what follows from them.

    Of several that vary in step, as a network with its runtime, the first.
    """
    names = dict.fromkeys([*first, *(name for own in levels for name in own)])
    found: dict[tuple[int, ...], tuple[str, list[str]]] = {}
    for name in names:
        of_cells = [_level(own, name) for own in levels]
        seen = list(dict.fromkeys(of_cells))
        if len(seen) > 1:
            found.setdefault(tuple(seen.index(level) for level in of_cells), (name, seen))
    return dict(found.values())


def _level(levels: dict[str, Any], name: str) -> str:
    value = levels.get(name)
    if value in (None, ""):
        return "none"
    return value if isinstance(value, str) else canonical(value)


def _changes(
    tables: Tables, metrics: Sequence[Metric], cells: pd.DataFrame, arms: Sequence[str]
) -> list[dict[str, Any]]:
    """Those with a verdict: the interval of few pairs would set the scale for all others."""
    numbers, places = _numbers(cells), {metric.name: i for i, metric in enumerate(metrics)}
    return [
        {
            "metric": places[row["metric"]],
            "arm": arms.index(row["arm"]),
            "cell": numbers[row["cell"]] if "cell" in row else None,
            "change": [_percent(row[part]) for part in ("ratio_low", "ratio", "ratio_high")],
            "sees": _short(row["detectable"] * 100),
            # An A/A comparison has none: it says how much chance gives.
            "verdict": "chance" if row["is_control"] else row["verdict"],
            "pairs": [row["n"], row["planned"]],
            **({} if "cell" in row else {"cases": row["cases_planned"]}),
            "confounds": row["confounds"],
        }
        for frame in (tables.overall, tables.comparisons)
        for row in records(frame)
        if row["metric"] in places and math.isfinite(row["ratio_low"] + row["ratio_high"])
        if judged(row)
    ]


def _trials(tables: Tables, metrics: Sequence[Metric], cells: pd.DataFrame) -> dict[str, Any]:
    """Columns, a value a trial. `values` has a list a metric; `flags` and `reasons` a text."""
    trials = tables.trials[tables.trials["role"] == "measured"].reset_index(drop=True)
    flags = tables.flags.groupby("trial", observed=True)["name"].agg(", ".join).to_dict()
    hosts = list(dict.fromkeys(trials["hosts"]))
    values = []
    for metric in metrics:
        how = scale(_known(tables.usable, metric.name), metric.unit)
        values.append([_short(value / how.factor) for value in trials[metric.name]])
    places = {trial: place for place, trial in enumerate(trials["trial"])}
    other = trials[trials["folder"] != trials["trial"]]
    return {
        "name": list(trials["trial"]),
        "folder": {places[row["trial"]]: row["folder"] for row in records(other)},
        "cell": [_numbers(cells)[cell] for cell in trials["cell"]],
        "lost": {places[row["trial"]]: _ended(row) for row in records(tables.lost)
                 if row["trial"] in places},
        "flags": {places[trial]: names for trial, names in flags.items() if trial in places},
        "round": [int(number or again) for number, again in
                  zip(trials["round"], trials["repetition"], strict=True)],
        "hosts": hosts,
        "host": [hosts.index(names) for names in trials["hosts"]],
        "values": values,
    }  # fmt: skip


def _ended(row: dict[str, Any]) -> list[str]:
    """How a trial that is in no figure ended: status, cause, message."""
    message = str(row["message"])
    return [row["status"], row["cause"], message if len(message) <= 200 else message[:199] + "…"]  # noqa: PLR2004


def _steps(tables: Tables, cells: pd.DataFrame) -> list[dict[str, Any]]:
    """A row a cell: of each bin of steps the median over its trials, and where nine in ten lie.

    The first step, which may take a hundred times as long, stands apart.
    """
    found = _of_cells(tables.steps, tables, cells)
    if found.empty:
        return []
    first = found[found["step"] == found["step"].min()].groupby("cell")["duration_s"].median()
    warm = found[found["phase"] == "warmup"].groupby("cell")["step"].max()
    later = found.loc[found["step"] > found["step"].min(), ["cell", "step", "duration_s"]]
    if later.empty:
        return []
    width = _width(later["step"], len(cells), 1)
    lines = []
    for cell, own in later.groupby("cell"):
        bins = own["duration_s"].groupby((own["step"] - 1) // width)
        rows = bins.quantile([0.05, 0.5, 0.95]).unstack()
        lines.append(
            {
                "cell": cell,
                "width": width,
                "x": (rows.index * width + 1).tolist(),
                "low": _list(rows[0.05]),
                "middle": _list(rows[0.5]),
                "high": _list(rows[0.95]),
                "first": _short(first.get(cell, math.nan)),
                "warm": int(warm.get(cell, 0)),
            }
        )
    return lines


def _usage(tables: Tables, cells: pd.DataFrame) -> list[dict[str, Any]]:
    """A row a cell: medians over its trials, for as long as half of them still run."""
    found = _of_cells(tables.usage, tables, cells)
    if found.empty:
        return []
    have = [name for name in USED if name in found and found[name].notna().any()]
    width = _width(found["t"], len(cells), 1)
    bins = (found["t"].clip(lower=0) // width).astype(int).rename("bin")
    each = found.groupby(["cell", bins, found["trial"]], observed=True)[have].mean()
    over = each.groupby(level=[0, 1])
    enough = (found.groupby("cell")["trial"].nunique() / 2).to_dict()
    count = over.size()
    table = over.median()[count >= count.index.get_level_values(0).map(enough)]
    memory = scale(_known(found, "memory_used"), "bytes")
    scaled = {name: memory.factor if "memory" in name else 1.0 for name in have}
    return [
        {
            "cell": cell,
            "x": (rows.index.get_level_values(1) * width).tolist(),
            "memory_unit": memory.unit,
            **{name: _list(rows[name] / scaled[name]) for name in have},
        }
        for cell, rows in table.groupby(level=0)
    ]


def _phases(tables: Tables, cells: pd.DataFrame) -> list[list[float | None]]:
    """A row a cell: mean seconds of each of PHASES. The probe is none of them, as in `elapsed`."""
    columns = [f"phase_{name}" for name in PHASES]
    if not set(columns) & set(tables.usable):
        return []
    means = tables.usable.reindex(columns=["cell", *columns]).groupby("cell").mean()
    return [_list(row) for row in means.reindex(cells["cell"]).to_numpy(dtype=np.float64)]


def _of_cells(rows: pd.DataFrame, tables: Tables, cells: pd.DataFrame) -> pd.DataFrame:
    """Steps or samples with the number of their cell."""
    if rows.empty:
        return rows
    numbers = _numbers(cells)
    of = {row["trial"]: numbers[row["cell"]] for row in records(usable(tables.trials))}
    return rows.assign(cell=rows["trial"].map(of).astype(int))


def _numbers(cells: pd.DataFrame) -> dict[str, int]:
    return {cell: place for place, cell in enumerate(cells["cell"])}


def _width(values: pd.Series, lines: int, least: int) -> int:
    """Of a bin, for so many lines in one figure."""
    points = min(max(POINTS // lines, FEWEST), MOST)
    return max(least, math.ceil(float(values.max()) / points))


def again(
    experiment: dict[str, Any], testbed: str, levels: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """What makes an experiment of a single cell: what all cells share, and the factors of each.

    Where the experiment has several workloads, `workload` names that of each cell, and `options`
    has those of each workload.
    """
    several = experiment.get("workloads") or {}
    factors, fixed = ({**(experiment.get(n) or {})} for n in ("factors", "options"))
    alone = {"baseline": {}, "control": False, "exclude": [], "repeats": 1}
    left_out = ("factors", "slices", "workloads")
    rest = {name: value for name, value in experiment.items() if name not in left_out}
    names, options = {}, {}
    for workload, own in several.items():
        every = {**factors, **own["factors"]}
        names[workload] = [name for name in every if name not in own["options"]]
        common = {name: value for name, value in fixed.items() if name not in own["factors"]}
        options[workload] = common | own["options"]
    return {
        "experiment": {**rest, **alone},
        "factors": [
            {name: own.get(name) for name in names.get(str(own.get("workload")), factors)}
            for own in levels
        ],
        "workload": [own.get("workload") for own in levels] if several else [],
        "options": options,
        "inventory": f"inventories/{testbed}",
    }


def _known(frame: pd.DataFrame, name: str) -> list[float]:
    return frame[name].dropna().tolist() if name in frame else []


def _percent(ratio: float) -> float | None:
    return _short((ratio - 1) * 100)


def _short(value: float) -> float | None:
    """A number of five digits, and null for what is none."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _list(values: Iterable[float]) -> list[float | None]:
    return [_short(value) for value in values]


def _seen(value: Any) -> Any:
    """Every text in it with nothing that is not seen."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {_seen(key): _seen(part) for key, part in value.items()}
    return [_seen(part) for part in value] if isinstance(value, list) else value
