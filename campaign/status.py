"""How far a campaign is: from its journal and the results folders, whoever drives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strata import units
from strata.errors import Refused

from analysis import text
from controller import plan as planning
from controller import results

from .definition import Campaign
from .state import FINAL, Journal


def document(campaign: Campaign, folder: Path) -> dict[str, Any]:
    """The status as data: `campaign`, `driven` (whether a process drives it), `runs`."""
    journal = Journal(folder / "campaigns" / campaign.name)
    driven = journal.process() is not None
    return {
        "campaign": campaign.name,
        "driven": driven,
        "runs": [
            _run(campaign, number, folder, journal, driven) for number in range(len(campaign.runs))
        ],
    }


def _run(
    campaign: Campaign, number: int, folder: Path, journal: Journal, driven: bool
) -> dict[str, Any]:
    name, asked = campaign.results(number), campaign.runs[number]
    state = journal.state(name)
    if state == "running" and not driven:
        state = "interrupted"
    own = [event for event in journal.events() if event.get("run") == name]
    return {
        "run": name,
        "testbed": asked.testbed,
        "state": state,
        "why": own[-1].get("why", "") if own else "",
        "starts": sum(event["state"] == "running" for event in own),
        "spent_s": journal.spent(name),
        **_progress(folder / name, state),
    }


def _progress(folder: Path, state: str) -> dict[str, Any]:
    """Trials done and failed, of how many, and the seconds left; nothing known before it opens."""
    try:
        return _known(results.Run(folder), state)
    except Refused:
        return {"trials": None, "done": 0, "failed": 0, "left_s": None}


def _known(run: results.Run, state: str) -> dict[str, Any]:
    """Raises Refused when a document cannot be read."""
    slots, statuses = run.slots(), run.statuses()
    cells = {trial["cell"]: trial["levels"] for slot in slots for trial in slot["trials"]}
    estimates = {cell: planning.slot_seconds(levels, 1) for cell, levels in cells.items()}
    return {
        "trials": sum(len(slot["trials"]) for slot in slots),
        "done": len(statuses),
        "failed": sum(status != "ok" for status in statuses.values()),
        "left_s": 0.0 if state in FINAL else run.seconds_left(estimates),
    }


def table(campaign: Campaign, folder: Path) -> list[str]:
    """The status as lines for people."""
    found = document(campaign, folder)
    rows = [_row(run) for run in found["runs"]]
    head = ("run", "state", "trials", "failed", "spent", "left")
    lines = text.table(head, rows, {2, 3, 4, 5})
    driven = "" if found["driven"] else "  (no process drives it)"
    left = [run["left_s"] for run in found["runs"] if run["left_s"]]
    total = f"; about {units.duration(sum(left))} left of what is known" if left else ""
    lines += ["", f"campaign {campaign.name}{driven}{total}"]
    lines += [f"{run['run']}: {line}" for run in found["runs"] for line in run["why"].splitlines()]
    return lines


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    known = run["trials"] is not None
    return (
        run["run"],
        run["state"],
        f"{run['done']} of {run['trials']}" if known else "",
        str(run["failed"]) if known else "",
        units.duration(run["spent_s"]) if run["spent_s"] else "",
        units.duration(run["left_s"]) if run["left_s"] else "",
    )
