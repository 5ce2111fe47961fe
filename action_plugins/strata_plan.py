"""Controller side of `strata_plan`: read the experiment, make the plan, choose the run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from strata import networks, runtimes, units
from strata.errors import Refused
from strata.host import lease, owned
from strata.identity import digest

from controller import (
    experiment,
    families,
    ledger,
    plan,
    preflight,
    providers,
    results,
    stages,
    visits,
)

# The runtime of the hosts that are nodes of a cluster which exists.
CLUSTERS = "kubernetes"
# In an inventory: what to do when it has no host.
NEXT = "# next: "


class ActionModule(ActionBase):
    """Touches no host and writes nothing."""

    _supports_check_mode = True
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(
        {
            *("experiment", "slice", "results", "run", "attempts", "cache", "image", "dataset"),
            *("testbed", "hosts", "controller", "offers", "instances"),
        }
    )

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        try:
            return {**result, "changed": False, **self._plan(self._task.args, task_vars or {})}
        except Refused as refused:
            raise AnsibleActionFail(str(refused)) from None

    def _plan(self, given: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        on_paper = "hosts" not in given
        facts, kind = given.get("hosts") or {}, given["image"]["kind"]
        offers, instances = given.get("offers") or {}, given.get("instances") or {}
        coming = stages.asked(task_vars["ansible_run_tags"], task_vars["ansible_skip_tags"])
        file, results_dir = Path(given["experiment"]), Path(given["results"])
        asked = experiment.load(file, given.get("slice") or "")
        preflight.check_attempts(int(given.get("attempts", 1)))
        preflight.check_results(results_dir)
        makes = makers(task_vars, given["testbed"])
        to_make = [host for names in makes.values() for host in names]
        hosts = testbed(task_vars, given["testbed"], facts, kind, offers)
        made = plan.make(asked, hosts)
        all_there = bool(to_make) and set(to_make) <= set(facts)
        if all_there:
            known = {name: one for name, one in facts.items() if name not in to_make}
            before = testbed(task_vars, given["testbed"], known, kind, offers)
            providers.check_same(plan.make(asked, before), made, to_make)
        trials = [trial for slot in made.slots for trial in slot.trials]
        needs_data = any(trial.levels.get("data") == "real" for trial in trials)
        folder = given.get("dataset") or ""
        data = preflight.dataset_of(asked, folder, file.parent) if needs_data else None
        _check_data(needs_data, data, asked.name)
        names = sorted({trial.family for trial in trials})
        needed = [families.load(family) for family in names]
        families.check(names, given["image"])
        keys = [families.source(family, given["image"]).key for family in needed]
        owned.Folder(Path(given["cache"]), "cache").is_ours()
        for name, answers in facts.items():
            preflight.check_state(name, answers)
            preflight.check_root(name, answers, kind)
            preflight.check_disk(name, answers, needed)
            preflight.check_cpu(name, answers, needed, kind)
        preflight.check_one_name(facts)
        if not on_paper:
            preflight.check_data(needs_data, hosts)
        addresses = {host.name: host.address for host in hosts}
        if facts.keys() >= set(given["testbed"]):
            preflight.check_addresses([slot.hosts for slot in made.slots], addresses)
        me = lease.process(os.getppid())
        here = {} if on_paper else _controller(facts, given.get("controller"))
        broken = [
            name
            for name, answers in {**facts, **here}.items()
            if lease.stale(name, answers, me, wait=True)
        ]
        identity = digest([asked.identity, made.identity, keys, data])
        wanted = given.get("run") or ""
        if wanted:
            results.check_name(wanted)
        # On paper a plan may have other cells than the hosts' answers give it: it is no run's yet.
        chosen = results.Choice(wanted, False, [])
        if not on_paper:
            chosen = results.choose(results_dir, asked.name, identity, wanted)
        left = results.Run(results_dir / chosen.name).to_measure() if chosen.there else made.slots
        document = made.document()
        return {
            "plan": {
                **document,
                "run": chosen.name,
                "digest": identity,
                "experiment": asked.model_dump(mode="json"),
                "experiment_digest": asked.identity,
                "factors": made.factors,
                "baseline": made.baseline,
                "left_out": made.left_out,
                "confounds": made.confounds,
                "hosts": {host.name: _entry(host, instances) for host in hosts},
                "addresses": addresses,
                "settings": visits.settings(document["slots"], addresses),
                "runtimes": sorted({str(trial.levels["runtime"]) for trial in trials}),
                "families": names,
                "images": _images({*names, (data or {}).get("family")}),
                "needs_data": needs_data,
                "dataset": data,
                "time_limit": units.seconds(asked.time_limit),
            },
            "controller": me,
            "controller_apart": bool(here),
            "stages": coming,
            "break_leases": broken,
            "testbed": ledger.testbed(context.CLIARGS["inventory"]),
            "providers": makes,
            "offers": {
                host: {"provider": provider, **offers.get(host, {})}
                for provider, names in makes.items()
                for host in names
            },
            # Looking at the hosts that were made changes nothing of what was said already.
            "progress": [] if on_paper or all_there else describe(made, chosen, len(left)),
        }


def _images(names: set[str | None]) -> dict[str, dict[str, Any]]:
    """What is in the image of each family. Raises Refused."""
    return {name: families.load(name).document() for name in sorted(filter(None, names))}


def _check_data(needed: bool, data: dict[str, Any] | None, name: str) -> None:
    if needed and data is None:
        raise Refused(
            f"{name} reads real data and names no dataset",
            example="dataset: {name: made, generate: {images: 1024}}",
            then="add a dataset to the experiment, or give one with -e strata_dataset=FOLDER",
        )


def makers(task_vars: dict[str, Any], names: list[str]) -> dict[str, list[str]]:
    """The hosts that each provider makes. Raises Refused."""
    return providers.of({name: task_vars["hostvars"][name] for name in names})


def testbed(
    task_vars: dict[str, Any],
    names: list[str],
    facts: dict[str, Any],
    kind: str,
    offers: dict[str, Any],
) -> list[plan.Host]:
    """The hosts of the testbed; `facts` are what strata_host said of each, if asked yet.

    `offers` are what providers say of those that are to be made.
    """
    groups, hostvars = task_vars["groups"], task_vars["hostvars"]
    if groups.get("testbed") and not names:
        raise Refused(
            "a limit leaves hosts of the testbed",
            example=f"--limit {groups['testbed'][0]},localhost",
            given=f"--limit {context.CLIARGS['subset']}",
            then=f"the testbed has {', '.join(groups['testbed'])}",
        )
    if not names:
        raise Refused(
            "the inventory has no host in the group 'testbed'",
            example="node1.example.org:  below `hosts:` of bare_metal, native and docker",
            given=f"-i {' '.join(context.CLIARGS['inventory'] or [])}",
            then=_what_to_edit(),
        )
    return [
        _host(name, hostvars[name], facts.get(name), kind, offers.get(name, {})) for name in names
    ]


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
    name: str,
    variables: dict[str, Any],
    facts: dict[str, Any] | None,
    kind: str,
    offer: dict[str, Any],
) -> plan.Host:
    groups = variables["group_names"]
    preflight.check_host(name, variables.get("strata_address"))
    members = tuple(runtime for runtime in runtimes.known() if runtime in groups)
    if facts is None:
        # Before a host is asked, an undeclared substrate is taken for bare metal: it only
        # names the cells of a plan that is made again once the host has answered.
        cpus = frozenset(offer["cpu_ids"]) if "cpu_ids" in offer else None
        return plan.Host(
            name,
            plan.substrate_of(groups, ""),
            members,
            len(cpus or ()) or os.cpu_count() or 1,
            address=str(variables.get("strata_address") or ""),
            memory_total=offer.get("memory_total"),
            cpus=cpus,
            networks=_networks(offer) if offer else tuple(networks.NETWORKS),
            gives_cpus=_gives_cpus(variables),
        )
    missing = {runtime: why for runtime in members if (why := _why_not(runtime, facts, kind))}
    return plan.Host(
        name,
        plan.substrate_of(groups, facts["virtualisation"]),
        members,
        len(facts["cpu_ids"]),
        missing,
        facts["memory_available"],
        str(variables.get("strata_address") or facts["address"]),
        facts["memory_total"],
        frozenset(facts["cpu_ids"]),
        frozenset(facts["numa_nodes"]),
        frozenset(facts["gpu"]["ids"]),
        tuple(map(tuple, facts["cores"])),
        _networks(facts),
        _gives_cpus(variables),
    )


def _gives_cpus(variables: dict[str, Any]) -> bool:
    """Whether the inventory has the host's node give pods CPUs of their own."""
    return bool(variables.get("kubernetes_cpu_manager") == "static")


def _networks(said: dict[str, Any]) -> tuple[str, ...] | None:
    """Those that a host has as they are, as it or its provider says."""
    return tuple(said["networks"]) if said.get("networks") else None


def _why_not(runtime: str, facts: dict[str, Any], kind: str) -> str:
    """Why a runtime cannot be had on the host that told these facts, or ''."""
    if facts.get("networks") and runtime != CLUSTERS:
        return "on a node of a cluster that exists programs run in its pods alone"
    return runtimes.get(runtime).why_not(facts[runtime], kind)


def _controller(
    facts: dict[str, dict[str, Any]], answers: dict[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """What strata_host said of the controller, by its name; nothing where it is in the testbed.

    Raises Refused where it was not asked.
    """
    if answers is None:
        raise Refused(
            "the controller takes part in every run: it builds, and keeps the records",
            example=f"--limit {context.CLIARGS['subset']},localhost",
            given=f"--limit {context.CLIARGS['subset']}",
            then="add localhost to the limit",
        )
    known = {one["machine"] for one in facts.values()}
    return {} if answers["machine"] in known else {"localhost": answers}


def _entry(host: plan.Host, instances: dict[str, str]) -> dict[str, str]:
    """What run.json says of a host; one that was made has an instance."""
    made = {"instance": instances[host.name]} if host.name in instances else {}
    return {"substrate": host.substrate, **made}


def describe(made: plan.Plan, chosen: results.Choice, left: int) -> list[str]:
    """The plan in a few lines; `left` is the number of slots that are still to be run."""
    cells = {trial.cell for slot in made.slots for trial in slot.trials}
    slots = len(made.slots)
    price = (
        f"at most about {units.duration(made.estimate['seconds'])}"
        f" and {units.bytes_text(made.estimate['bytes'])}"
    )
    done = f"{slots - left} of them done already; " if chosen.there else ""
    what = price if left else "what is left is its report"
    verb = "resuming" if chosen.there else "run"
    return [
        f"{verb} {chosen.name}: {slots} slots, {len(cells)} cells; {done}{what}",
        *chosen.passed,
        *(f"left out: {item['what']}: {item['why']}" for item in made.left_out),
        *(f"confounded: {item['what']}: {item['why']}" for item in made.confounds),
    ]
