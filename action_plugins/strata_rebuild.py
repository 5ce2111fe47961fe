"""Controller side of `strata_rebuild`: a testbed that is built again, held against its lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from controller import lives, opening, rebuild
from controller.action import FOLDER, STRINGS, RunAction
from controller.rebuild import Seen
from controller.results import Run

STATES = ["read", "checked", "begun", "kept"]
ANY = {"type": "dict", "default": {}}
ROWS = {"type": "list", "elements": "dict", "default": []}
TEXT = {"type": "str", "default": ""}


class ActionModule(RunAction):
    """A run's lock is read and held against what is there; what came of a rebuild is kept."""

    ARGUMENTS: ClassVar[dict[str, dict[str, Any]]] = {
        "folder": FOLDER,
        "state": {"type": "str", "required": True, "choices": STATES},
        "rebuild": {"type": "int", "default": 0},
        "names": STRINGS,
        **dict.fromkeys(("hosts", "unavailable", "offers", "seconds", "instances"), ANY),
        **dict.fromkeys(("images", "lives"), ROWS),
        "runtimes": STRINGS,
        "began": TEXT,
    }
    IN_CHECK_MODE: ClassVar[dict[str, Any] | None] = None

    def act(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        opening.check_there(folder)
        run = Run(folder)
        locked = rebuild.of(run)
        if given["state"] == "read":
            return {"changed": False, "packages": rebuild.packages(locked)}
        if given["state"] == "begun":
            run.event("rebuild_begun", rebuild=given["rebuild"])
            return {"changed": True}
        parts = ("images", "runtimes", "offers", "hosts", "names", "unavailable")
        seen = Seen(**{part: given[part] for part in parts})
        if given["state"] == "checked":
            rebuild.check(locked, seen)
            return {"changed": False}
        rebuilt = rebuild.keep(run, seen, given["began"], given["seconds"], given["instances"])
        lives.keep(folder, given["lives"], given["instances"].values())
        confounds = sum(row.kind == "confound" for row in rebuilt.differences)
        if given["rebuild"] and not confounds:
            which = {"rebuild": given["rebuild"], "number": rebuilt.number}
            run.event("rebuilt", **which, instances=given["instances"])
        return {"changed": True, "confounds": confounds, "progress": rebuild.told(rebuilt)}
