"""Controller side of `strata_slot`: note that a slot begins, and keep what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

# Half a second to import: each task is a fork of the process that loads this file, and has it then.
import pyarrow.parquet  # noqa: F401
from strata.errors import Refused

from controller import disturbed, progress, stopping
from controller.action import FOLDER, RunAction
from controller.results import Run


class ActionModule(RunAction):
    """One method for each state."""

    ARGUMENTS: ClassVar[dict[str, dict[str, Any]]] = {
        "folder": FOLDER,
        "state": {"type": "str", "required": True, "choices": ["begun", "stored", "warmed_up"]},
        "slot": {"type": "dict", "required": True},
        "outcomes": {"type": "list", "elements": "dict", "default": []},
    }

    def act(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run, slot = Run(folder), given["slot"]
        if given["state"] == "begun":
            return self.begun(run, slot)
        act = self.stored if given["state"] == "stored" else self.warmed_up
        return act(run, slot, given["outcomes"])

    def warmed_up(
        self, run: Run, slot: dict[str, Any], given: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Nothing of it is kept but that it was."""
        _, outcomes = _told(slot, given)
        ends = {o["record"]["trial"]: o["record"]["status"] for o in outcomes}
        run.event("warmed_up", slot=slot["slot"], trials=ends)
        said = ", ".join(ends.values()) or "no answer"
        return {
            "changed": True,
            "progress": [f"not measured, on {', '.join(slot['hosts'])}: {said}"],
        }

    def begun(self, run: Run, slot: dict[str, Any]) -> dict[str, Any]:
        line = progress.begun(run, slot)
        run.event("slot_started", slot=slot["slot"])
        return {"changed": True, "progress": [line]}

    def stored(self, run: Run, slot: dict[str, Any], given: list[dict[str, Any]]) -> dict[str, Any]:
        answers, outcomes = _told(slot, given)
        records = run.store(slot, outcomes)
        silent = [host for host, answer in answers.items() if "outcomes" not in answer]
        lines = [progress.stored(run, record) for record in records]
        again = [] if silent else self.again(run, slot, lines)
        lines += [] if silent or again else filter(None, [stopping.look(run)])
        told = {"progress": lines, "silent": silent, "again": again, "stopped": run.stopped > 0}
        lost = [record["trial"] for record in records if record["status"] != "ok"]
        return {"changed": True, **told, "lost": lost}

    def again(self, run: Run, slot: dict[str, Any], lines: list[str]) -> list[dict[str, Any]]:
        """The slots of this one's pair that are to be run again now; says so in `lines`."""
        number, due = run.due(run.pair(slot))
        # Of an attempt that is not over yet, the rest comes by itself.
        if number <= min(run.latest()[trial][0] for trial in disturbed.measured(slot)):
            return []
        if not progress.in_time(run, due):
            lines.append("    not run again: there is no time for it in the time_budget")
            run.not_repeated(due)
            return []
        most = 1 + run.rule["again"]
        lines.append(f"    its pair is run again: attempt {number} of at most {most}")
        return due


def _told(
    slot: dict[str, Any], given: list[dict[str, Any]]
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """What the module answered on each host, and all outcomes. Raises Refused."""
    answers = dict(zip(slot["hosts"], given, strict=True))
    _check_answers(answers)
    return answers, [o for answer in answers.values() for o in answer.get("outcomes", [])]


def _check_answers(answers: dict[str, dict[str, Any]]) -> None:
    """Raise Refused where the module itself failed: that is no outcome, so none is kept."""
    for host, answer in answers.items():
        if "outcomes" not in answer and not answer.get("unreachable"):
            raise Refused(
                f"the slot could not be run on {host}",
                given=str(answer.get("msg", ""))[:500],
                then="put that right, and run the same command again: the slot is repeated",
            )
