"""Figures as inline SVG: small panels of one width, so that a page can wrap them.

The same arm has the same colour in every panel (`colours`). Output depends on the input alone:
no date, and ids from a fixed salt. Text stays text, so it can be selected and scales with the page.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .metrics import Metric, Scale, scale
from .shown import shown

# Okabe and Ito's palette for all kinds of colour vision, without its yellow, which is too light
# for lines on white ("Color Universal Design", 2008). The baseline is always the first.
PALETTE = ("#4d4d4d", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
PHASES = {
    "startup": ("Start-up", "#54698c"),
    "first_step": ("First step", "#b3628a"),
    "warmup": ("Warm-up", "#d9a7bf"),
    "input": ("Input", "#e0a33e"),
    "compute": ("Compute", "#5fa58c"),
    "teardown": ("Teardown", "#b5b5b5"),
}
STYLE: Any = {
    "svg.hashsalt": "strata",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#3b4048",
    "text.color": "#1d2026",
    "xtick.color": "#3b4048",
    "ytick.color": "#3b4048",
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e6e8ec",
    "grid.linewidth": 0.7,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
WIDTH = 3.35  # inches, about 320 CSS pixels: one panel on a telephone, three on a desk
POINTS = 240
LABEL = 22  # characters of an arm's name in a line


def colours(arms: Sequence[str]) -> dict[str, str]:
    """The colour of each arm, in the order of `matching.order`."""
    return {arm: PALETTE[i % len(PALETTE)] for i, arm in enumerate(arms)}


def values(
    trials: pd.DataFrame, summary: pd.DataFrame, metric: Metric, tint: Mapping[str, str]
) -> list[str]:
    """A panel a case: single trials as dots, the mean as a bar with its 95 % interval.

    Dots and intervals, not bars: the axis need not start at zero, and small changes stay visible.
    """
    rows = summary[summary["metric"] == metric.name]
    return [
        _svg(_values_panel(str(case), group, trials, metric, tint))
        for case, group in rows.groupby("case", sort=True)
    ]


def changes(
    comparisons: pd.DataFrame, metrics: Sequence[Metric], tint: Mapping[str, str]
) -> list[str]:
    """A panel a metric: the change of each cell against its baseline, with its interval.

    Of cells that have a verdict: the interval of few pairs would set the scale for all others.
    """
    if comparisons.empty:
        return []
    judged = comparisons[comparisons["verdict"] != "too few trials"].dropna(subset="ratio")
    found = [(metric, judged[judged["metric"] == metric.name]) for metric in metrics]
    return [_svg(_changes_panel(metric, rows, tint)) for metric, rows in found if len(rows)]


def steps(steps_: pd.DataFrame, trials: pd.DataFrame, tint: Mapping[str, str]) -> list[str]:
    """A panel a case: seconds of each step; median over trials, each trial faint behind it."""
    if steps_.empty:
        return []
    slowest = steps_.groupby(["trial", "step"], as_index=False).agg(
        duration_s=("duration_s", "max"), phase=("phase", "first")
    )
    named = slowest.merge(trials[["trial", "case", "arm"]], on="trial")
    return [_svg(_steps_panel(str(case), group, tint)) for case, group in named.groupby("case")]


def phases(trials: pd.DataFrame, arms: Sequence[str]) -> list[str]:
    """A panel a case: mean seconds of each phase, stacked; without the probe, as elapsed is."""
    names = [name for name in PHASES if f"phase_{name}" in trials]
    if not names:
        return []
    found = trials.groupby("case", sort=True)
    return [_svg(_phases_panel(str(case), group, names, arms)) for case, group in found]


def usage(samples: pd.DataFrame, trials: pd.DataFrame, tint: Mapping[str, str]) -> list[str]:
    """Two panels a case: cores in use, and memory, over seconds since launch."""
    if samples.empty:
        return []
    named = samples.merge(trials[["trial", "case", "arm"]], on="trial")
    pairs = (("cpu_busy", "workload_cpu", "cores"), ("memory_used", "workload_memory", "bytes"))
    return [
        _svg(_usage_panel(str(case), group, pair, tint))
        for pair in pairs
        for case, group in named.groupby("case", sort=True)
        if any(name in group and group[name].notna().any() for name in pair[:2])
    ]


def _values_panel(
    case: str, rows: pd.DataFrame, trials: pd.DataFrame, metric: Metric, tint: Mapping[str, str]
) -> Figure:
    unit, name = scale(rows["max"], metric.unit), metric.name
    figure, axes = _panel(case, 0.75 + 0.36 * len(rows))
    for place, row in enumerate(rows.to_dict("records")):
        colour = tint[row["arm"]]
        dots = trials.loc[trials["cell"] == row["cell"], name].dropna().to_numpy() / unit.factor
        axes.scatter(dots, place + 0.2 + _jitter(len(dots)), s=13, color=colour, alpha=0.45, lw=0)
        mean = row["mean"] / unit.factor
        axes.plot([mean, mean], [place - 0.22, place + 0.08], color=colour, lw=2.2)
        if np.isfinite(row["low"]):
            ends = [row["low"] / unit.factor, row["high"] / unit.factor]
            axes.plot(ends, [place - 0.07] * 2, color=colour, lw=1.4)
    _arm_axis(axes, [str(label) for label in rows["short"]])
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.margins(x=0.12)
    axes.set_xlabel(_label(metric.label, unit))
    return figure


def _changes_panel(known: Metric, rows: pd.DataFrame, tint: Mapping[str, str]) -> Figure:
    figure, axes = _panel(known.label, 0.75 + 0.36 * len(rows))
    axes.axvline(0, color="#1d2026", lw=0.9)
    labels = []
    for place, row in enumerate(rows.to_dict("records")):
        point, low, high = ((row[part] - 1) * 100 for part in ("ratio", "ratio_low", "ratio_high"))
        axes.scatter([point], [place], s=26, color=tint[row["arm"]], zorder=3)
        if np.isfinite(low):
            axes.plot([low, high], [place, place], color=tint[row["arm"]], lw=1.6)
        labels.append(row["short"] if row["case"] == "all" else f"{row['case']}\n{row['short']}")
    _arm_axis(axes, labels)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.margins(x=0.12)
    axes.set_xlabel(f"Change (%), {known.better} is better")
    return figure


def _jitter(count: int) -> Any:
    """Fixed small offsets, so that equal values stay visible and output stays the same."""
    return 0.09 * np.sin(np.arange(count) * 2.4)


def _steps_panel(case: str, rows: pd.DataFrame, tint: Mapping[str, str]) -> Figure:
    figure, axes = _panel(case, 1.9)
    warm = rows.loc[rows["phase"] == "warmup", "step"]
    if len(warm):
        axes.axvspan(0.5, warm.max() + 0.5, color="#eef0f3", lw=0, zorder=0)
    for arm in [arm for arm in tint if arm in set(rows["arm"])]:
        own = rows[rows["arm"] == arm]
        for _, trial in own.groupby("trial"):
            axes.plot(trial["step"], trial["duration_s"], color=tint[arm], lw=0.6, alpha=0.22)
        middle = own.groupby("step")["duration_s"].median()
        axes.plot(middle.index, middle, color=tint[arm], lw=1.5)
    _limit_to_later_steps(axes, rows)
    axes.set_xlim(0.5, rows["step"].max() + 0.5)
    axes.set_xlabel("Step")
    axes.set_ylabel("Duration (s)")
    return figure


def _limit_to_later_steps(axes: Axes, rows: pd.DataFrame) -> None:
    """Scale to what follows the first step, which may take a hundred times as long."""
    first = rows.loc[rows["step"] == rows["step"].min(), "duration_s"].median()
    top = rows.loc[rows["step"] > rows["step"].min(), "duration_s"].quantile(0.995) * 1.25
    if not np.isfinite(top):
        return
    axes.set_ylim(0, top)
    if first > top:
        axes.annotate(f"first step {first:.2g} s", (0.99, 0.97), xycoords="axes fraction",
                      ha="right", va="top", fontsize=7.5, color="#6b717c")  # fmt: skip


def _phases_panel(
    case: str, rows: pd.DataFrame, names: Sequence[str], arms: Sequence[str]
) -> Figure:
    present = [arm for arm in arms if arm in set(rows["arm"])]
    figure, axes = _panel(case, 0.75 + 0.36 * len(present))
    for place, arm in enumerate(present):
        left = 0.0
        for name in names:
            width = rows.loc[rows["arm"] == arm, f"phase_{name}"].mean()
            if np.isfinite(width):
                axes.barh(place, width, left=left, height=0.56, color=PHASES[name][1])
                left += width
    short = rows.drop_duplicates("arm").set_index("arm")["short"]
    _arm_axis(axes, [str(short[arm]) for arm in present])
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.margins(x=0.06)
    axes.set_xlim(left=0)
    axes.set_xlabel("Elapsed (s)")
    return figure


def _usage_panel(
    case: str, rows: pd.DataFrame, pair: tuple[str, str, str], tint: Mapping[str, str]
) -> Figure:
    host, workload, unit = pair
    figure, axes = _panel(case, 1.9)
    how = scale([rows[name].max() for name in (host, workload) if name in rows], unit)
    width = max(1.0, float(np.ceil(rows["t"].max() / POINTS)))
    for arm in [arm for arm in tint if arm in set(rows["arm"])]:
        own = rows[rows["arm"] == arm]
        for name, style in ((host, "-"), (workload, "--")):
            if name in own and own[name].notna().any():
                line = _over_time(own, name, width)
                axes.plot(line.index, line / how.factor, style, color=tint[arm], lw=1.3)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, rows["t"].max() * 1.04)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("Seconds since launch")
    axes.set_ylabel("CPU (cores)" if unit == "cores" else f"Memory ({how.unit})")
    return figure


def _over_time(rows: pd.DataFrame, name: str, width: float) -> pd.Series:
    """Median over trials in bins of `width` seconds, as long as half of the trials still run."""
    bins = (rows["t"].clip(lower=0) // width) * width
    each = rows.assign(bin=bins).groupby(["bin", "trial"])[name].mean().groupby(level="bin")
    half = rows["trial"].nunique() / 2
    line: pd.Series = each.median()[each.count() >= half]
    return line


def _panel(title: str, height: float) -> tuple[Figure, Axes]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(_plain(title) if title != "all" else "", pad=6)
    return figure, axes


def _arm_axis(axes: Axes, labels: Sequence[str]) -> None:
    wrapped = [textwrap.fill(_plain(label), LABEL) for label in labels]
    axes.set_yticks(range(len(labels)), wrapped)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def _plain(label: str) -> str:
    """No mathematics between dollar signs, no controls: names come from an experiment."""
    return shown(label, keep="\n").replace("$", r"\$")


def _label(label: str, unit: Scale) -> str:
    return f"{label} ({unit.unit})" if unit.unit else label


def _svg(figure: Figure) -> str:
    """The figure as an <svg> element that takes the width of its container."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # A size in points would be fixed; the view box alone keeps the proportions.
    return re.sub(r'(<svg[^>]*?) width="[^"]*pt"', r"\1", text, count=1).replace(
        ' height="', ' data-height="', 1
    )
