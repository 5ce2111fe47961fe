"""Controller side of `strata_block`: note how far the switch of a block's setting is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from strata.errors import Refused

from controller.action import FOLDER, STRINGS, RunAction
from controller.results import Run

FAILED = {
    "present": "could not be made",
    "prove": "is not proven",
    "measured": "is not in place any more, and is made again",
    "absent": "is not left",
}
SILENT = "a host cannot be reached, or the role has no such entry point: the output above says it"


class ActionModule(RunAction):
    """One method for each state; each is a line of the journal, and one of progress."""

    ARGUMENTS: ClassVar[dict[str, dict[str, Any]]] = {
        "folder": FOLDER,
        "state": {
            **{"type": "str", "required": True},
            "choices": ["begun", "proven", "failed", "left"],
        },
        "block": {"type": "dict", "required": True},
        "stage": {"type": "str", "choices": list(FAILED), "default": "present"},
        "results": {"type": "dict", "default": {}},
        "proven": STRINGS,
        "seen": {"type": "dict", "default": {}},
    }

    def act(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        states = {
            "begun": self.begun,
            "proven": self.proven,
            "failed": self.failed,
            "left": self.left,
        }
        line, more = states[given["state"]](given)
        block = {name: given["block"][name] for name in ("block", "setting")}
        Run(folder).event(f"setting_{given['state']}", **block, **more)
        said = f"block {block['block']}, setting {block['setting']}: {line}"
        return {"changed": True, "progress": [said], "proven": given["state"] == "proven", **more}

    def begun(self, _: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "it is switched to", {}

    def proven(self, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        seen = {host: facts for host, facts in given["seen"].items() if facts}
        return "it is in place", {"seen": seen} if seen else {}

    def failed(self, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        stage, message = given["stage"], _message(given["results"])
        return f"it {FAILED[stage]}: {message}", {"stage": stage, "message": message}

    def left(self, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        missing = [host for host in given["block"]["hosts"] if host not in given["proven"]]
        if missing:
            raise Refused(
                "a setting is left when all of its hosts are seen to have nothing of it",
                given=f"no answer from {', '.join(missing)}",
                then="bring the host back, and run the same command again: it leaves that first",
            )
        return "it is left, and nothing of it is there", {}


def _message(results: dict[str, dict[str, Any]]) -> str:
    """What the failed task said on each host where one has failed."""
    said = {host: _said(result) for host, result in results.items() if result.get("failed")}
    return "; ".join(f"{host}: {text}" for host, text in said.items()) or SILENT


def _said(result: dict[str, Any]) -> str:
    """The message of a task; of one in a loop, that of the first item that failed."""
    failed = [item for item in result.get("results", []) if item.get("failed")]
    return str((failed or [result])[0].get("msg", "it has failed")).strip()
