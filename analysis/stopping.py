"""Runs that end as soon as one comparison is known as narrowly as their experiment asked.

Looking again and again, and ending when it suits, makes plain intervals too narrow. So all
intervals of such a run are those that hold at every look at once (`inference.Anytime`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from schema import documents as schema

from . import matching, stats, text
from .load import Loaded
from .metrics import DASH


@dataclass(frozen=True)
class Known:
    """How well the comparison that a rule names is known: as a share, on its wider side."""

    short: str
    metric: str  # its label
    within: float
    asked: float
    pairs: int

    @property
    def enough(self) -> bool:
        return self.within <= self.asked

    def said(self) -> str:
        """`docker/bridge: rate to within ±3.8 % (asked: ±4.0 %)`."""
        parts = (text.percent(1 + share).lstrip("+") for share in (self.within, self.asked))
        found, asked = (f"±{part}" if part != DASH else "no figure" for part in parts)
        return f"{self.short}: {self.metric.lower()} to within {found} (asked: ±{asked[1:]})"


def rule(run: schema.Run) -> dict[str, Any]:
    """What the experiment says of when to end; nothing where it has no such rule."""
    return run.experiment.get("stop") or {}


def known(loaded: Loaded) -> Known | None:
    """How well the comparison is known by now that the run's rule names; None without a rule."""
    asked = rule(loaded.run)
    if not asked:
        return None
    trials = matching.assign(loaded)
    metric = loaded.metrics.get(asked["metric"] or loaded.metrics.leads[0])
    named = trials["role"] == "measured"
    for name, level in asked["of"].items():
        named &= trials[name].map(str) == str(level)
    # An A/A arm is meant only where nothing else bears these levels.
    asking = named & ~trials["is_control"]
    arms = set(trials.loc[asking if asking.any() else named, "arm"])
    single = stats.compare(trials, [metric], anytime=True)
    whole = stats.overall(trials, [metric], single, model=False, anytime=True)
    rows = whole[whole["arm"].isin(arms)].to_dict("records") if len(whole) else []
    if not rows:
        return Known(", ".join(map(str, asked["of"].values())), metric.label, math.inf,
                     asked["within"], 0)  # fmt: skip
    (row,) = rows
    within = math.inf
    if row["verdict"] != "too few trials":
        within = row["ratio_high"] / row["ratio"] - 1
    return Known(row["short"], metric.label, within, asked["within"], row["n"])


def notice(loaded: Loaded) -> str:
    """What a reader must know of how the run ended; '' without a rule."""
    found = known(loaded)
    if found is None:
        return ""
    most = max((slot.round for slot in loaded.plan.slots), default=0)
    ended = (
        f"It ended by that rule after round {loaded.stopped} of at most {most}."
        if loaded.stopped
        else f"It has not ended by that rule, in at most {most} rounds."
    )
    return (
        "This run looked after each round whether it knew enough, and had a rule for that before "
        f"it began. Known now of {found.said()}. {ended} All intervals are wider than those of "
        "a run without such a rule: they hold whenever one looks."
    )
