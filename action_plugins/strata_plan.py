"""Controller side of `strata_plan`: read the experiment, make the plan, choose the run."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from strata import experiment, lease, plan, preflight, results, units
from strata.build import Source
from strata.errors import Refused
from strata.identity import digest
from strata.runtimes import NETWORKS

# In an inventory: what to do when it has no host.
NEXT = "# next: "


class ActionModule(ActionBase):
    """Touches no host and writes nothing."""

    _supports_check_mode = True
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(
        {"experiment", "slice", "results", "run", "attempts", "hosts", "image", "dataset"}
    )

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        try:
            return {**result, "changed": False, **self._plan(self._task.args, task_vars or {})}
        except Refused as refused:
            raise AnsibleActionFail(str(refused)) from None

    def _plan(self, given: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        facts, kind = given.get("hosts") or {}, given["image"]["kind"]
        results_dir = Path(given["results"])
        asked = experiment.load(Path(given["experiment"]), given.get("slice") or "")
        preflight.check_image(given["image"])
        preflight.check_attempts(int(given.get("attempts", 1)))
        preflight.check_results(results_dir)
        hosts = testbed(task_vars, facts, kind)
        made = plan.make(asked, hosts)
        trials = [trial for slot in made.slots for trial in slot.trials]
        needs_data = any(trial.levels.get("data") == "real" for trial in trials)
        data = preflight.dataset_of(asked, given.get("dataset") or "") if needs_data else None
        _check_data(needs_data, data, asked.name)
        for name, answers in facts.items():
            preflight.check_disk(name, answers)
        if facts:
            addresses = {host.name: host.address for host in hosts}
            preflight.check_addresses([slot.hosts for slot in made.slots], addresses)
        me = controller()
        broken = [
            name for name, answers in facts.items() if preflight.stale_lease(name, answers, me)
        ]
        identity = digest([asked.identity, made.identity, _source(given["image"]).key, data])
        name, there = results.choose(results_dir, asked.name, identity, given.get("run") or "")
        done = results.Run(results_dir / name).done() if there else set()
        return {
            "plan": {
                **made.document(),
                "run": name,
                "digest": identity,
                "experiment": asked.model_dump(mode="json"),
                "experiment_digest": asked.identity,
                "factors": made.factors,
                "baseline": made.baseline,
                "left_out": made.left_out,
                "confounds": made.confounds,
                "hosts": {host.name: {"substrate": host.substrate} for host in hosts},
                "addresses": {host.name: host.address for host in hosts},
                "networks": sorted({str(trial.levels["network"]) for trial in trials}),
                "runtimes": sorted({str(trial.levels["runtime"]) for trial in trials}),
                "needs_data": needs_data,
                "dataset": data,
                "time_limit": units.seconds(asked.time_limit),
            },
            "controller": me,
            "break_leases": broken,
            "progress": describe(made, name, there, len(done)) if facts else [],
        }


def _source(image: dict[str, Any]) -> Source:
    paths = {name: Path(image[name]) for name in ("lock", "workloads")}
    return Source(**{**image, **paths})


def _check_data(needed: bool, data: dict[str, Any] | None, name: str) -> None:
    if needed and data is None:
        raise Refused(
            f"{name} reads real data and names no dataset",
            example="dataset: {name: made, generate: {images: 1024}}",
            then="add a dataset to the experiment, or give one with -e strata_dataset=FOLDER",
        )


def testbed(task_vars: dict[str, Any], facts: dict[str, Any], kind: str) -> list[plan.Host]:
    """The hosts of the group `testbed`; `facts` are what strata_host said of each, if asked yet."""
    groups, hostvars = task_vars["groups"], task_vars["hostvars"]
    names = groups.get("testbed", [])
    if not names:
        raise Refused(
            "the inventory has no host in the group 'testbed'",
            example="node1.example.org:  below `hosts:` of bare_metal, native and docker",
            given=f"-i {' '.join(context.CLIARGS['inventory'] or [])}",
            then=_what_to_edit(),
        )
    return [_host(name, hostvars[name], facts.get(name), kind) for name in names]


def _what_to_edit() -> str:
    """What the inventory itself says, which of its lines are to be edited, or where to read on."""
    for source in context.CLIARGS["inventory"] or []:
        for path in sorted(Path(source).resolve().glob("hosts.y*ml")):
            text = path.read_text().splitlines()
            lines = [str(number) for number, line in enumerate(text, 1) if line.endswith("# EDIT")]
            told = [line.removeprefix(NEXT) for line in text if line.startswith(NEXT)]
            if told:
                return told[0]
            if lines:
                where = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
                return f"uncomment and edit lines {', '.join(lines)} of {where}"
    return "put hosts into the groups of docs/lab.md"


def _host(
    name: str, variables: dict[str, Any], facts: dict[str, Any] | None, kind: str
) -> plan.Host:
    groups = variables["group_names"]
    preflight.check_host(name, variables.get("strata_address"))
    runtimes = tuple(runtime for runtime in NETWORKS if runtime in groups)
    if facts is None:
        # Before a host is asked, an undeclared substrate is taken for bare metal: it only
        # names the cells of a plan that is made again once the host has answered.
        return plan.Host(name, plan.substrate_of(groups, ""), runtimes, os.cpu_count() or 1)
    why = preflight.why_no_docker(facts, kind)
    return plan.Host(
        name,
        plan.substrate_of(groups, facts["virtualisation"]),
        runtimes,
        len(facts["cpu_ids"]),
        {"docker": why} if why else {},
        facts["memory_available"],
        str(variables.get("strata_address") or facts["address"]),
        facts["memory_total"],
        frozenset(facts["cpu_ids"]),
        frozenset(facts["numa_nodes"]),
        frozenset(facts["gpu"]["ids"]),
    )


def controller() -> dict[str, Any]:
    """Who holds the leases: the ansible-playbook process, named so that its end can be seen."""
    pid = os.getppid()
    return {"host": socket.gethostname(), "pid": pid, "start": lease.start_time(pid)}


def describe(made: plan.Plan, name: str, resumed: bool, done: int) -> list[str]:
    """The plan in a few lines."""
    cells = {trial.cell for slot in made.slots for trial in slot.trials}
    lines = [
        f"{'resuming' if resumed else 'run'} {name}: {len(made.slots)} slots, {len(cells)} cells"
        + (f", {done} trials done already" if resumed else "")
        + f"; at most about {units.duration(made.estimate['seconds'])}"
        f" and {units.bytes_text(made.estimate['bytes'])}"
    ]
    lines += [f"left out: {item['what']}: {item['why']}" for item in made.left_out]
    return lines + [f"confounded: {item['what']}: {item['why']}" for item in made.confounds]
