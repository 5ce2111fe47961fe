"""Open the folder of a run: a new one, or one that is resumed, of this very plan and these bits."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from strata import networks
from strata.errors import Refused
from strata.trial.record import DATASET, IMAGE

from . import metrics, progress, rebuild
from .results import Run
from .version import version


def opened(
    folder: Path,
    plan: dict[str, Any],
    images: list[dict[str, Any]],
    dataset: dict[str, Any],
    testbed: str,
    hosts: dict[str, dict[str, Any]],
    built: dict[str, dict[str, Any]] | None = None,
    offers: dict[str, dict[str, Any]] | None = None,
) -> Run:
    """A new run of the plan, or the one that is there. `hosts` are their fingerprints, `built` what
    else each was built of, `offers` what providers said of those that they made.

    Raises Refused where the folder holds a run of another plan.
    """
    if not (folder / "run.json").exists():
        document = _document(plan, images, dataset, testbed)
        whole = {name: values | (built or {}).get(name, {}) for name, values in hosts.items()}
        seen = rebuild.Seen(
            images=_images(plan, images),
            runtimes=sorted({str(trial["levels"]["runtime"]) for trial in _trials(plan)}),
            offers=offers or {},
            hosts=whole,
            names=list(hosts),
        )
        planned = {key: plan[key] for key in ("slots", "estimate")}
        Run.create(folder, document, planned, hosts, rebuild.lock(testbed, seen))
    return of(folder, plan)


def resumed(
    run: Run,
    plan: dict[str, Any],
    images: list[dict[str, Any]],
    dataset: dict[str, Any],
    retry: Collection[str],
    attempts: int,
) -> list[dict[str, Any]]:
    """The slots that are to be measured in a run that was there; notes that it goes on.

    Raises Refused where they would be measured with other bits than those before.
    """
    pending = run.to_measure(retry, attempts)
    if pending:
        _check_same_bits(run, _images(plan, images), dataset)
    if pending or not run.closed():
        run.event("resumed", **_instances(plan["hosts"]))
    for due in run.repeats():
        if not progress.in_time(run, due):
            run.not_repeated(due)
    return run.to_measure(retry, attempts)


def _instances(hosts: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Which instance of each host that a provider makes takes part now; nothing without one."""
    found = {name: host["instance"] for name, host in hosts.items() if "instance" in host}
    return {"instances": found} if found else {}


def of(folder: Path, plan: dict[str, Any]) -> Run:
    """The run in the folder, which is that of the plan. Raises Refused."""
    check_there(folder)
    run = Run(folder)
    run.check_plan(plan["experiment"]["name"], plan["digest"])
    return run


def check_there(folder: Path) -> None:
    """Raise Refused where the run to be looked at is not there: nothing was run by this command."""
    if not folder.exists():
        there = sorted(path.parent.name for path in folder.parent.glob("*/run.json"))
        raise Refused(
            f"there is no run {folder.name} yet",
            example=f"-e strata_run={there[-1]}" if there else "",
            given=f"{folder.parent} holds {', '.join(there[-5:]) or 'none'}",
            then="name a run that is there with -e strata_run=NAME, or run the plan first",
        )


def _check_same_bits(run: Run, images: list[dict[str, str]], dataset: dict[str, Any]) -> None:
    """A run is resumed with the images and the data it was opened with, or not at all."""
    now = {"dataset": dataset} | {f"image of {i['family']}": i for i in images}
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


def _images(plan: dict[str, Any], images: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The image of each family that trials of the plan run from, for run.json."""
    of_family = {image["family"]: image for image in images}
    return [{key: of_family[name][key] for key in IMAGE} for name in plan["families"]]


def _document(
    plan: dict[str, Any], images: list[dict[str, Any]], dataset: dict[str, Any], testbed: str
) -> dict[str, Any]:
    """run.json less what the results folder itself adds."""
    experiment = plan["experiment"]
    return {
        "run": plan["run"],
        "name": experiment["name"],
        "experiment": experiment,
        "experiment_digest": plan["experiment_digest"],
        "plan_digest": plan["digest"],
        "seed": experiment["seed"],
        "testbed": testbed,
        "hosts": plan["hosts"],
        "images": _images(plan, images),
        "dataset": {key: dataset[key] for key in DATASET} if dataset else None,
        "strata": version(),
        "baseline": plan["baseline"],
        "demonstration": experiment["demonstration"],
        "factors": plan["factors"],
        "workloads": metrics.declared(
            _workloads(plan), in_duets=experiment.get("design") == "duet"
        ),
        "networks": _networks(plan),
        "left_out": plan["left_out"],
        "confounds": plan["confounds"],
    }


def _trials(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [trial for slot in plan["slots"] for trial in slot["trials"]]


def _workloads(plan: dict[str, Any]) -> list[str]:
    """The workloads of a plan, each once, those that are measured first."""
    trials = _trials(plan)
    trials.sort(key=lambda trial: trial["role"] != "measured")
    return list(dict.fromkeys(trial["levels"]["workload"] for trial in trials))


def _networks(plan: dict[str, Any]) -> dict[str, dict[str, int]]:
    """What is known of the networks of a plan, whatever it measures of them."""
    names = sorted({str(trial["levels"]["network"]) for trial in _trials(plan)})
    return {name: {"headers": networks.get(name).headers} for name in names}
