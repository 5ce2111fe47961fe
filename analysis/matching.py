"""Which trials stand against which: the arm of a trial, its case, and the baseline.

An arm is what is compared (a platform, perhaps with a label); a case is what stays the same
in a comparison (model and data, say). A comparison is matched: both arms have equal levels in
everything but the compared factors, which are those that the run's baseline names.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import pandas as pd

from schema import documents as schema

from .load import Loaded, canonical

PLATFORM = ("substrate", "runtime", "network")
IMPLIED = {"runtime": ("network",), "distribution": ("workers", "servers", "placement")}

# What needs no word: the usual ones of a test between two ends.
USUAL = {"ends": "both", "through": "address"}


def assign(loaded: Loaded) -> pd.DataFrame:
    """The trials with `arm`, `short`, `case`, `match`, `is_baseline`, `is_reference`, `is_control`,
    `duet`, `planned` and `emulated`.

    `arm` names the platform in full and `short` only the parts that vary in this run; `match`
    is equal for trials that may be compared. `is_control` marks the baseline under another label:
    an A/A comparison, and in duets also another arm beside itself. `is_reference` are those that
    others are compared with: the baseline, and in each duet one of the two. `duet` is the slot of
    one, or ''. `planned` is how many comparisons with a measured trial of the cell the plan has.
    `emulated` says that the CPU of one of its hosts was emulated.
    """
    run = loaded.run
    levels = [json.loads(text) for text in loaded.trials["levels"]]
    measured = loaded.trials["role"] == "measured"
    # A background job's options are not what a cell is told by.
    varying = _varying([one for one, own in zip(levels, measured, strict=True) if own])
    compared = _compared(run)
    parts = [part for part in PLATFORM if part in varying]
    extra = [name for name in varying if name in compared and name not in PLATFORM]
    rest = [name for name in varying if name not in compared and name not in PLATFORM]
    duets, slow = _duets(loaded.plan, run.baseline), set(loaded.emulated)
    seats = [
        duets.get(name) or Seat("", _is_baseline(one, run.baseline), _is_control(one, run.baseline))
        for one, name in zip(levels, loaded.trials["trial"], strict=True)
    ]
    return loaded.trials.assign(
        arm=[_name(one, PLATFORM, extra) for one in levels],
        short=[_name(one, parts or (() if extra else PLATFORM), extra) for one in levels],
        case=[_text(one, rest) for one in levels],
        match=[canonical({k: v for k, v in one.items() if k not in compared}) for one in levels],
        is_baseline=[_is_baseline(one, run.baseline) for one in levels],
        **{name: [getattr(seat, name) for seat in seats] for name in Seat._fields},
        planned=loaded.trials["cell"].map(_planned(loaded.plan, duets)).fillna(0).astype(int),
        emulated=[bool(slow & set(hosts.split(", "))) for hosts in loaded.trials["hosts"]],
    )


class Seat(NamedTuple):
    """A trial's place in a duet: its slot, whether it is the one that the other is compared with,
    and whether it is that one once more (A/A)."""

    duet: str
    is_reference: bool
    is_control: bool


def _duets(plan: schema.Plan, baseline: dict[str, Any]) -> dict[str, Seat]:
    """The seats of all trials in duets. Of an arm beside itself, the one without another label is
    compared with."""
    found = {}
    for slot in plan.slots:
        both = [trial for trial in slot.trials if trial.side]
        both.sort(
            key=lambda one: (
                _is_second(one.levels, baseline),
                not _is_baseline(one.levels, baseline),
            )
        )
        alike = len({canonical({**one.levels, "label": None}) for one in both}) == 1
        for place, one in enumerate(both):
            found[one.trial] = Seat(slot.slot, place == 0, alike and place > 0)
    return found


def _is_second(levels: dict[str, Any], baseline: dict[str, Any]) -> bool:
    """Whether it has another label than the baseline."""
    return "label" in baseline and levels.get("label") != baseline["label"]


def _planned(plan: schema.Plan, duets: dict[str, Seat]) -> dict[str, int]:
    trials = (trial for slot in plan.slots for trial in slot.trials)
    measured = (trial for trial in trials if trial.role == "measured")
    asking = (t for t in measured if t.trial not in duets or not duets[t.trial].is_reference)
    return dict(Counter(trial.cell for trial in asking))


def _compared(run: schema.Run) -> set[str]:
    """The factors of the baseline, with what they imply: a runtime has its own network, a
    distribution a number of workers and a place for them."""
    return set(run.baseline).union(*(IMPLIED.get(name, ()) for name in run.baseline))


def _is_baseline(levels: dict[str, Any], baseline: dict[str, Any]) -> bool:
    return bool(baseline) and all(levels.get(name) == value for name, value in baseline.items())


def _is_control(levels: dict[str, Any], baseline: dict[str, Any]) -> bool:
    """Whether only the label sets a trial apart from the baseline."""
    differing = [name for name, value in baseline.items() if levels.get(name) != value]
    return differing == ["label"]


def _varying(levels: list[dict[str, Any]]) -> list[str]:
    """What has several levels within one workload, as each has options of its own; and which
    workload, where a run has several."""
    names = dict.fromkeys(name for one in levels for name in one)
    found: dict[tuple[str, str], set[str]] = {}
    for one in levels:
        for name in names:
            of = "" if name == "workload" else canonical(one.get("workload"))
            found.setdefault((name, of), set()).add(canonical(one.get(name)))
    varying = {name for (name, _), seen in found.items() if len(seen) > 1}
    return [name for name in names if name in varying]


def _name(levels: dict[str, Any], parts: tuple[str, ...] | list[str], extra: list[str]) -> str:
    platform = "/".join(str(levels.get(part)) for part in parts)
    return " ".join(filter(None, [platform, *_values(levels, extra)])) or "baseline"


def _text(levels: dict[str, Any], names: list[str]) -> str:
    return " · ".join(_values(levels, names)) or "all"


def _values(levels: dict[str, Any], names: list[str]) -> list[str]:
    """Words speak for themselves; a number needs its name. Of a cluster of one, no size."""
    if levels.get("distribution") == "none":
        names = [name for name in names if name not in IMPLIED["distribution"]]
        levels = {**levels, "distribution": "alone"}
    values = [(name, levels.get(name)) for name in names]
    return [
        value if isinstance(value, str) else f"{name} {canonical(value)}"
        for name, value in values
        if value not in ("", None, USUAL.get(name, ""))
    ]


def order(trials: pd.DataFrame) -> list[str]:
    """Arms in the order of every table and figure: the baseline, then by name."""
    first = trials.groupby("arm")["is_baseline"].any()
    return sorted(first.index, key=lambda arm: (not first[arm], arm))
