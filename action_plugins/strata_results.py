"""Controller side of `strata_results`: open the run folder, keep each slot, close it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from strata import units
from strata.errors import Refused
from strata.trial.record import DATASET, IMAGE

from analysis.errors import AnalysisError
from controller import metrics, results
from controller import plan as planning
from controller.experiment import PLATFORM
from schema.documents import SchemaError


class ActionModule(ActionBase):
    """One method for each state; each returns lines of progress for people."""

    _supports_check_mode = True
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(
        {
            *("state", "folder", "plan", "images", "dataset", "testbed", "hosts", "slot"),
            *("outcomes", "retry", "attempts"),
        }
    )

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = self._task.args
        if self._task.check_mode:
            return {**result, "changed": True, "pending": [], "references": {}}
        states = {
            "opened": self._open,
            "failed": self._again,
            "begun": self._begin,
            "stored": self._store,
            "closed": self._close,
            "verified": self._verify,
            "reported": self._report,
        }
        try:
            return {**result, **states[given["state"]](Path(given["folder"]), given)}
        except (Refused, AnalysisError, SchemaError) as refused:
            raise AnsibleActionFail(str(refused)) from None
        except OSError as error:
            raise AnsibleActionFail(
                f"the results folder cannot be written\ngiven: {error}\n"
                "next: make room for it, and run the same command again: what has a record is kept"
            ) from error

    def _open(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        there = (folder / "run.json").exists()
        if not there:
            results.Run.create(folder, _document(given), _plan(given), given["hosts"])
        run = _run(folder, given)
        pending = run.pending(given.get("retry") or [], given.get("attempts") or 1)
        if there and pending:
            _check_same_bits(run, given)
        if there and (pending or not run.closed()):
            run.event("resumed")
        return {"changed": not there, "pending": pending, "references": run.references()}

    def _again(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run = results.Run(folder)
        return {"changed": False, "pending": run.pending(given["retry"], given["attempts"])}

    def _begin(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run, slot = results.Run(folder), given["slot"]
        slots = run.slots()
        index = next(i for i, other in enumerate(slots, 1) if other["slot"] == slot["slot"])
        left = units.duration(run.seconds_left(_estimates(slots)))
        run.event("slot_started", slot=slot["slot"])
        what = " beside ".join(name(trial["levels"], run.document) for trial in slot["trials"])
        return {
            "changed": True,
            "progress": [f"trial {index} of {len(slots)}  {what}  (left: about {left})"],
        }

    def _store(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run, slot = results.Run(folder), given["slot"]
        answers = dict(zip(slot["hosts"], given["outcomes"], strict=True))
        _check_answers(answers)
        outcomes = [
            outcome for answer in answers.values() for outcome in answer.get("outcomes", [])
        ]
        records = run.store(slot, outcomes)
        silent = [host for host, answer in answers.items() if "outcomes" not in answer]
        declared = run.document["workloads"]
        lines = [f"    {_beside(record)}{figure(record, declared)}" for record in records]
        return {"changed": True, "progress": lines, "silent": silent}

    def _close(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        del given
        totals = results.Run(folder).close()
        return {"changed": True, "totals": totals}

    def _verify(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run = _run(folder, given)
        pending = run.pending()
        if pending:
            raise Refused(
                f"{folder.name} is not complete",
                given=f"{len(pending)} of {len(run.slots())} slots have no record",
                then="run the same command again: it resumes",
            )
        run.check_records()
        return {"changed": False}

    def _report(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        run = _run(folder, given)
        # matplotlib and pandas take a second to import, which no other state should pay.
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


def _run(folder: Path, given: dict[str, Any]) -> results.Run:
    """The run in the folder, which is that of the plan. Raises Refused."""
    _check_there(folder)
    run = results.Run(folder)
    run.check_plan(given["plan"]["experiment"]["name"], given["plan"]["digest"])
    return run


def _check_there(folder: Path) -> None:
    """Raise Refused where the run to be looked at is not there: nothing was run by this command."""
    if not folder.exists():
        there = sorted(path.parent.name for path in folder.parent.glob("*/run.json"))
        raise Refused(
            f"there is no run {folder.name} yet",
            example=f"-e strata_run={there[-1]}" if there else "",
            given=f"{folder.parent} holds {', '.join(there[-5:]) or 'none'}",
            then="name a run that is there with -e strata_run=NAME, or run the plan first",
        )


def name(levels: dict[str, Any], run: dict[str, Any]) -> str:
    """A cell for people: its platform and what varies beside it."""
    platform = "/".join(str(levels[part]) for part in PLATFORM)
    rest = [_said(f, levels[f]) for f in run["factors"] if f not in PLATFORM and levels[f]]
    return " ".join([platform, *rest])


def _said(factor: str, level: Any) -> str:
    """A level that is a number says nothing without the name of its factor."""
    return f"{factor} {level}" if isinstance(level, int | float) else str(level)


def _check_answers(answers: dict[str, dict[str, Any]]) -> None:
    """Raise Refused where the module itself failed: that is no outcome, so none is kept."""
    for host, answer in answers.items():
        if "outcomes" not in answer and not answer.get("unreachable"):
            raise Refused(
                f"the slot could not be run on {host}",
                given=str(answer.get("msg", ""))[:500],
                then="put that right, and run the same command again: the slot is repeated",
            )


def _beside(record: dict[str, Any]) -> str:
    return "beside it: " if record["role"] == "background" else ""


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


def _estimates(slots: list[dict[str, Any]]) -> dict[str, float]:
    cells = {trial["cell"]: trial["levels"] for slot in slots for trial in slot["trials"]}
    return {cell: planning.slot_seconds(levels, 1) for cell, levels in cells.items()}


def _document(given: dict[str, Any]) -> dict[str, Any]:
    """run.json less what the results folder itself adds."""
    plan = given["plan"]
    experiment, data = plan["experiment"], given["dataset"]
    return {
        "run": plan["run"],
        "name": experiment["name"],
        "experiment": experiment,
        "experiment_digest": plan["experiment_digest"],
        "plan_digest": plan["digest"],
        "seed": experiment["seed"],
        "testbed": given["testbed"],
        "hosts": plan["hosts"],
        "images": _images(given),
        "dataset": {key: data[key] for key in DATASET} if data else None,
        "strata": _version(),
        "baseline": plan["baseline"],
        "demonstration": experiment["demonstration"],
        "factors": plan["factors"],
        "workloads": metrics.declared(_workloads(plan)),
        "left_out": plan["left_out"],
        "confounds": plan["confounds"],
    }


def _workloads(plan: dict[str, Any]) -> list[str]:
    """The workloads of a plan, each once, those that are measured first."""
    trials = [trial for slot in plan["slots"] for trial in slot["trials"]]
    trials.sort(key=lambda trial: trial["role"] != "measured")
    return list(dict.fromkeys(trial["levels"]["workload"] for trial in trials))


def _plan(given: dict[str, Any]) -> dict[str, Any]:
    return {key: given["plan"][key] for key in ("slots", "estimate")}


def _check_same_bits(run: results.Run, given: dict[str, Any]) -> None:
    """A run is resumed with the image and the data it was opened with, or not at all."""
    now = {"dataset": given["dataset"]} | {f"image of {i['family']}": i for i in _images(given)}
    then = {"dataset": run.document["dataset"]}
    then |= {f"image of {i['family']}": i for i in run.document["images"]}
    for part in sorted({*then, *now}):
        digests = [(side.get(part) or {}).get("digest") for side in (then, now)]
        if digests[0] != digests[1]:
            raise Refused(
                f"{run.folder.name} was opened with another {part}; its trials cannot be compared",
                given=f"{digests[0]}, now {digests[1]}",
                then="begin a new run: -e strata_run=NAME",
            )


def _images(given: dict[str, Any]) -> list[dict[str, str]]:
    """The image of each family that trials of the plan run from, for run.json."""
    of_family = {image["family"]: image for image in given["images"]}
    return [{key: of_family[name][key] for key in IMAGE} for name in given["plan"]["families"]]


def _version() -> dict[str, str]:
    """Version of Strata: the commit of this checkout, marked when files were changed."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        commit = done.stdout.strip()
    except FileNotFoundError:
        commit = ""
    return {"version": "0.1.0", "commit": commit or "unknown"}
