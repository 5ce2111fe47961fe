"""Controller side of `strata_report`: the tables and the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from strata.errors import Refused

from controller import opening
from controller.action import FOLDER, RunAction


class ActionModule(RunAction):
    """A run in which no trial ended well is reported as well, and then refused."""

    ARGUMENTS: ClassVar[dict[str, dict[str, Any]]] = {
        "folder": FOLDER,
        "plan": {"type": "dict", "required": True},
    }

    def act(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run = opening.of(folder, given["plan"])
        # pandas and scipy take a second to import, which no other task should pay.
        from analysis import report  # noqa: PLC0415

        lines = report.make(folder)
        run.reported()
        if not run.good():
            raise Refused(
                "a run has a measured trial that ended well",
                given="\n".join(lines),
                then="see to the cause, and run the same command again: it begins a new run",
            )
        return {"changed": True, "progress": lines}
