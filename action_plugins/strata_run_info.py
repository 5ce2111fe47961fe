"""Controller side of `strata_run_info`: what a run has still to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from controller import visits
from controller.action import FOLDER, STRINGS, RunAction
from controller.results import Run


class ActionModule(RunAction):
    """Reads the folder, and writes nothing."""

    ARGUMENTS: ClassVar[dict[str, dict[str, Any]]] = {
        "folder": FOLDER,
        "retry": STRINGS,
        "attempts": {"type": "int", "default": 1},
    }
    IN_CHECK_MODE: ClassVar[dict[str, Any]] = {
        **{"changed": False, "again": [], "unleft": [], "rebuild": 1},
    }

    def act(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run = Run(folder)
        return {
            "changed": False,
            "again": visits.of(run, run.again(given["retry"], given["attempts"])),
            "unleft": visits.unleft(run),
            "rebuild": run.rebuild(),
        }
