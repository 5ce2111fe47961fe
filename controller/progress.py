"""What a run says of itself while it goes on, in lines for people."""

from __future__ import annotations

from typing import Any

from strata import units

from . import disturbed
from . import plan as planning
from .experiment import PLATFORM
from .results import Run


def begun(run: Run, slot: dict[str, Any]) -> str:
    """Which slot of how many, what it measures, and how long the rest takes."""
    slots = run.slots()
    index = next(i for i, other in enumerate(slots, 1) if other["slot"] == slot["slot"])
    left = units.duration(run.seconds_left(estimates(slots)))
    what = " beside ".join(name(trial["levels"], run.document) for trial in slot["trials"])
    again = ", once more" if set(disturbed.measured(slot)) <= run.done() else ""
    return f"trial {index} of {len(slots)}{again}  {what}  (left: about {left})"


def stored(run: Run, record: dict[str, Any]) -> str:
    """What came of a trial."""
    beside = "beside it: " if record["role"] == "background" else ""
    return f"    {beside}{figure(record, run.document['workloads'])}"


def name(levels: dict[str, Any], run: dict[str, Any]) -> str:
    """A cell for people: its platform and what varies beside it."""
    platform = "/".join(str(levels[part]) for part in PLATFORM)
    known = {f: levels.get(f) for f in run["factors"] if f not in PLATFORM}
    rest = [_said(factor, level) for factor, level in known.items() if level]
    return " ".join([platform, *rest])


def _said(factor: str, level: Any) -> str:
    """A level that is a number says nothing without the name of its factor."""
    return f"{factor} {level}" if isinstance(level, int | float) else str(level)


def figure(record: dict[str, Any], declared: dict[str, Any]) -> str:
    """The outcome of a trial in a line; `declared` is the key `workloads` of run.json."""
    if record["status"] != "ok":
        reason = record["reason"] or {}
        message = str(reason.get("message", "")).strip().splitlines() or [""]
        return f"{record['status']}: {reason.get('cause')}: {message[-1][:160]}"
    found = record["metrics"]
    known = declared[record["levels"]["workload"]]["metrics"]
    shown = [m for m in known if m["headline"] and m["name"] in found]
    text = ", ".join(
        f"{m['label'].lower()} {found[m['name']]['value']:.4g} {found[m['name']]['unit']}"
        for m in shown
    )
    flags = ", ".join(flag["name"] for flag in record["flags"])
    return f"{text}{f'  [{flags}]' if flags else ''}"


def in_time(run: Run, more: list[dict[str, Any]]) -> bool:
    """Whether there is time for `more` slots beside those that are left in the time budget."""
    left = run.seconds_left(estimates(run.slots()), more)
    budget = units.seconds(run.document["experiment"]["time_budget"])
    return run.wall_seconds() + left <= budget


def estimates(slots: list[dict[str, Any]]) -> dict[str, float]:
    """The seconds that the plan assumed for a slot of each cell."""
    cells = {trial["cell"]: trial["levels"] for slot in slots for trial in slot["trials"]}
    return {cell: planning.slot_seconds(levels, 1) for cell, levels in cells.items()}
