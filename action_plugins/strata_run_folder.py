"""Controller side of `strata_run_folder`: open, close and verify the folder of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from strata.errors import Refused

from controller import disturbed, lives, opening, stopping, visits
from controller.action import FOLDER, STRINGS, RunAction
from controller.results import Run

STATES = ["opened", "rested", "closed", "verified"]
AT_ONCE = {"share": 0.0, "patience_s": 0.0, "slots": []}


class ActionModule(RunAction):
    """One method for each state."""

    ARGUMENTS: ClassVar[dict[str, dict[str, Any]]] = {
        "folder": FOLDER,
        "state": {"type": "str", "required": True, "choices": STATES},
        "rests": {"type": "dict", "default": {}},
        "plan": {"type": "dict", "default": {}},
        "images": {"type": "list", "elements": "dict", "default": []},
        "dataset": {"type": "dict", "default": {}},
        "testbed": {"type": "str", "default": ""},
        "hosts": {"type": "dict", "default": {}},
        "built": {"type": "dict", "default": {}},
        "offers": {"type": "dict", "default": {}},
        "lives": {"type": "list", "elements": "dict", "default": []},
        "retry": STRINGS,
        "attempts": {"type": "int", "default": 1},
    }
    IN_CHECK_MODE: ClassVar[dict[str, Any]] = {
        **{"changed": True, "blocks": [], "unleft": [], "references": {}, "before": AT_ONCE},
    }

    def act(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        states = {
            "opened": self.opened,
            "rested": self.rested,
            "closed": self.closed,
            "verified": self.verified,
        }
        return states[given["state"]](folder, given)

    def opened(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        there = (folder / "run.json").exists()
        bits = {part: given[part] for part in ("images", "dataset")}
        testbed = {part: given[part] for part in ("testbed", "hosts", "built", "offers")}
        run = opening.opened(folder, given["plan"], **bits, **testbed)
        instances = [host.get("instance", "") for host in given["plan"]["hosts"].values()]
        lives.keep(folder, given["lives"], instances)
        again = {name: given[name] for name in ("retry", "attempts")}
        # A kill may have come between the last record of a round and the look at it.
        lines = list(filter(None, [stopping.look(run)])) if there else []
        pending = opening.resumed(run, given["plan"], **bits, **again) if there else run.pending()
        return {
            "progress": lines,
            "changed": not there,
            "blocks": visits.of(run, pending),
            "unleft": visits.unleft(run),
            "references": run.references(),
            "before": disturbed.before(run.rule, pending) if pending else AT_ONCE,
        }

    def rested(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        Run(folder).event("rested", hosts=given["rests"])
        restless = {host: rest for host, rest in given["rests"].items() if not rest["rested"]}
        lines = [
            f"{host} has not come to rest: after {rest['waited_s']:.0f} s others still use "
            f"{rest['others']:.0%} of its CPU time"
            for host, rest in restless.items()
        ]
        return {"changed": True, "progress": lines}

    def closed(self, folder: Path, _: dict[str, Any]) -> dict[str, Any]:
        return {"changed": True, "totals": Run(folder).close()}

    def verified(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run = opening.of(folder, given["plan"])
        pending = run.pending()
        if pending:
            raise Refused(
                f"{folder.name} is not complete",
                given=f"{len(pending)} of {len(run.slots())} slots have no record",
                then="run the same command again: it resumes",
            )
        run.check_records()
        return {"changed": False}
