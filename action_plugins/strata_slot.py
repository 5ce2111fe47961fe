"""Controller side of `strata_slot`: note that a slot begins, and keep what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

# Half a second to import: each task is a fork of the process that loads this file, and has it then.
import pyarrow.parquet  # noqa: F401
from strata.errors import Refused

from controller import progress
from controller.action import FOLDER, RunAction
from controller.results import Run


class ActionModule(RunAction):
    """One method for each state."""

    ARGUMENTS: ClassVar[dict[str, dict[str, Any]]] = {
        "folder": FOLDER,
        "state": {"type": "str", "required": True, "choices": ["begun", "stored"]},
        "slot": {"type": "dict", "required": True},
        "outcomes": {"type": "list", "elements": "dict", "default": []},
    }

    def act(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run, slot = Run(folder), given["slot"]
        return self.begun(run, slot) if given["state"] == "begun" else self.stored(run, given)

    def begun(self, run: Run, slot: dict[str, Any]) -> dict[str, Any]:
        line = progress.begun(run, slot)
        run.event("slot_started", slot=slot["slot"])
        return {"changed": True, "progress": [line]}

    def stored(self, run: Run, given: dict[str, Any]) -> dict[str, Any]:
        slot = given["slot"]
        answers = dict(zip(slot["hosts"], given["outcomes"], strict=True))
        _check_answers(answers)
        outcomes = [
            outcome for answer in answers.values() for outcome in answer.get("outcomes", [])
        ]
        records = run.store(slot, outcomes)
        silent = [host for host, answer in answers.items() if "outcomes" not in answer]
        lines = [progress.stored(run, record) for record in records]
        return {"changed": True, "progress": lines, "silent": silent}


def _check_answers(answers: dict[str, dict[str, Any]]) -> None:
    """Raise Refused where the module itself failed: that is no outcome, so none is kept."""
    for host, answer in answers.items():
        if "outcomes" not in answer and not answer.get("unreachable"):
            raise Refused(
                f"the slot could not be run on {host}",
                given=str(answer.get("msg", ""))[:500],
                then="put that right, and run the same command again: the slot is repeated",
            )
