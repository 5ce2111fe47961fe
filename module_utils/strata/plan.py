"""From an experiment and a testbed to the seeded, randomised, interleaved list of slots."""

from __future__ import annotations

import itertools
import random
from dataclasses import asdict, dataclass, field
from typing import Any

import workloads

from . import members, units
from .errors import Refused
from .experiment import (
    BUILT_IN,
    PLATFORM,
    SCENARIO,
    SUBSTRATES,
    Experiment,
    Level,
    Levels,
    resolve_options,
)
from .identity import digest, short
from .runtimes import NETWORKS, SHARED

# What a trial needs on the controller's disk beside its steps: record, usage, logs.
RECORD_BYTES = 256 * 1024
STEP_BYTES = 120
# From the launch of a background job to its first measured step.
BACKGROUND_START_S = 30.0
# Launching a module, settling, writing the record.
TRIAL_OVERHEAD_S = 1.5


@dataclass(frozen=True)
class Host:
    """A host of the testbed as the inventory and preflight describe it."""

    name: str
    substrate: str
    runtimes: tuple[str, ...]
    cores: int = 1
    missing: dict[str, str] = field(default_factory=dict)  # runtime -> why it cannot be had
    memory: int = 0  # bytes that are available; 0 before the host was asked
    address: str = ""  # where its peers reach it


@dataclass(frozen=True)
class Trial:
    trial: str
    cell: str
    repetition: int
    role: str
    levels: Levels
    members: list[members.Member]


@dataclass(frozen=True)
class Slot:
    """What runs at the same time: one trial, a trial beside its background job, a duet."""

    slot: str
    block: str
    hosts: list[str]
    trials: list[Trial]


@dataclass(frozen=True)
class Plan:
    slots: list[Slot]
    estimate: dict[str, float]
    left_out: list[dict[str, str]]
    factors: list[str]
    baseline: Levels

    def document(self) -> dict[str, Any]:
        """plan.json less its schema number."""
        return {"slots": [asdict(slot) for slot in self.slots], "estimate": self.estimate}

    @property
    def identity(self) -> str:
        return digest(self.document()["slots"])


def make(experiment: Experiment, hosts: list[Host]) -> Plan:
    """Expand, check, place, shuffle and price `experiment` on `hosts`. Raises Refused."""
    _check_groups(experiment, hosts)
    cells, left_out = [], {}
    for levels in expand(experiment, hosts):
        why = _why_not(levels, hosts)
        if why:
            left_out[_placing(levels)] = why
        else:
            cells.append(levels)
    omitted = [{"what": what, "why": why} for what, why in left_out.items()]
    if not cells:
        reasons = "; ".join(f"{item['what']}: {item['why']}" for item in omitted)
        raise Refused(
            "the design is empty: no cell is left to run",
            given=reasons or f"exclude: {experiment.exclude}",
            then="remove a rule from exclude, or give the testbed what the runtime needs",
        )
    slots = _slots(experiment, cells, hosts)
    plan = Plan(
        slots,
        _estimate(slots, hosts),
        omitted,
        _varying(experiment, cells),
        _baseline(experiment),
    )
    _check_budget(experiment, plan)
    _check_memory(plan, hosts)
    return plan


def expand(experiment: Experiment, hosts: list[Host]) -> list[Levels]:
    """Every valid cell: all resolved levels, in the order of the factors."""
    factors: dict[str, list[Level]] = {
        "substrate": [*sorted({host.substrate for host in hosts})],
        "runtime": ["native"],
        **experiment.factors,
    }
    cells: dict[str, Levels] = {}
    for combination in itertools.product(*factors.values()):
        chosen = {**experiment.options, **dict(zip(factors, combination, strict=True))}
        chosen.setdefault("network", NETWORKS[str(chosen["runtime"])][0])
        chosen = {**chosen, **_scenario(chosen)}
        if _fits(chosen) and not _excluded(chosen, experiment):
            levels = _resolve(experiment.workload, chosen)
            cells.setdefault(digest(levels), levels)
    return list(cells.values())


def _scenario(chosen: Levels) -> Levels:
    """How many take part and where, with one spelling for one meaning.

    A lone trial has no servers and no placement, and a ring no servers, whatever is stated.
    """
    distribution = chosen.get("distribution") or "none"
    alone, served = distribution == "none", str(distribution).startswith("ps_")
    return {
        "distribution": distribution,
        "workers": chosen.get("workers") or 1,
        "servers": (chosen.get("servers") or 1) if served else 0,
        "placement": "spread" if alone else chosen.get("placement") or "spread",
        "beside": chosen.get("beside"),
    }


def _fits(chosen: Levels) -> bool:
    """Whether the levels can go together at all."""
    alone = chosen["distribution"] == "none"
    return (
        chosen["network"] in NETWORKS[str(chosen["runtime"])]
        and (chosen["workers"] == 1 or not alone)
        and (chosen["network"] != "none" or alone)
        # A background job is on one host, and so is what runs beside it.
        and (chosen["beside"] is None or alone or chosen["placement"] != "spread")
    )


def _resolve(workload: str, chosen: Levels) -> Levels:
    """All levels of a cell: what it is placed on, its resources, every option."""
    options = {name: level for name, level in chosen.items() if name not in BUILT_IN}
    memory = chosen.get("memory")
    return {
        **{name: chosen[name] for name in PLATFORM},
        "label": str(chosen.get("label") or ""),
        "workload": workload,
        "cpus": chosen.get("cpus"),
        "memory": units.size(memory) if isinstance(memory, str | int) else None,
        "numa": chosen.get("numa"),
        "gpus": chosen.get("gpus"),
        "quota": chosen.get("quota"),
        **{name: chosen[name] for name in SCENARIO},
        **resolve_options(workload, options),
    }


def _excluded(chosen: Levels, experiment: Experiment) -> bool:
    return any(
        all(
            chosen.get(name) in (levels if isinstance(levels, list) else [levels])
            for name, levels in rule.items()
        )
        for rule in experiment.exclude
    )


def _check_groups(experiment: Experiment, hosts: list[Host]) -> None:
    """Each runtime and substrate that is asked for has a host in its inventory group."""
    have = {
        "runtime": sorted({runtime for host in hosts for runtime in host.runtimes}),
        "substrate": sorted({host.substrate for host in hosts}),
    }
    for name, groups in have.items():
        for level in experiment.factors.get(name, ["native"] if name == "runtime" else []):
            if level not in groups:
                raise Refused(
                    f"{experiment.name} needs a host in the inventory group {level!r}",
                    example=f"{level}: {{hosts: {{node1: }}}}",
                    given=f"groups with hosts: {', '.join(groups) or 'none'}",
                    then=f"add a host to {level!r}, or take {level!r} out of factors.{name}",
                )


def _candidates(levels: Levels, hosts: list[Host]) -> list[Host]:
    return [
        host
        for host in hosts
        if host.substrate == levels["substrate"] and levels["runtime"] in host.runtimes
    ]


def _placing(levels: Levels) -> str:
    """What decides whether hosts can be had for a cell, for people."""
    several = f" with {levels['workers']} workers" if _hosts_needed(levels) > 1 else ""
    return f"{levels['runtime']} on {levels['substrate']}{several}"


def _hosts_needed(levels: Levels) -> int:
    return int(str(levels["workers"])) if levels["placement"] == "spread" else 1


def _why_not(levels: Levels, hosts: list[Host]) -> str:
    """Why no hosts can run this cell, or ''."""
    runtime = str(levels["runtime"])
    candidates = _candidates(levels, hosts)
    if not candidates:
        return f"no {levels['substrate']} host is in the group {runtime}"
    reasons = [host.missing[runtime] for host in candidates if runtime in host.missing]
    if len(reasons) == len(candidates):
        return reasons[0]
    have, need = len(candidates) - len(reasons), _hosts_needed(levels)
    if have < need:
        return f"{need} such hosts are needed, one for each worker, and there are {have}"
    return ""


def _slots(experiment: Experiment, cells: list[Levels], hosts: list[Host]) -> list[Slot]:
    """Blocks by expensive setting; in a block, rounds that hold every cell once, shuffled.

    A round is a complete randomised block in time, so that a drift of the machine falls on
    all sides of a comparison alike.
    """
    order = random.Random(experiment.seed)  # noqa: S311 - a reproducible shuffle, no secret
    settings = sorted({setting(levels) for levels in cells})
    order.shuffle(settings)
    slots: list[Slot] = []
    for number, name in enumerate(settings, 1):
        block = [levels for levels in cells if setting(levels) == name]
        for repetition in range(1, experiment.repeats + 1):
            for levels in order.sample(block, len(block)):
                chosen = [host.name for host in _place(levels, hosts, repetition)]
                trials = _trials(experiment, levels, repetition, chosen)
                slots.append(Slot(f"s{len(slots) + 1:04d}", f"b{number}", chosen, trials))
    return slots


def setting(levels: Levels) -> str:
    """What is expensive to switch and so decides the block: an overlay; hosts have theirs."""
    network = str(levels["network"])
    return "" if network in ("host", "bridge", "none", *SHARED) else network


def _place(levels: Levels, hosts: list[Host], repetition: int) -> list[Host]:
    """Repetition r of every cell on the same hosts, so that sides are paired on them."""
    usable = [host for host in _candidates(levels, hosts) if levels["runtime"] not in host.missing]
    first = (repetition - 1) % len(usable)
    return [*usable[first:], *usable[:first]][: _hosts_needed(levels)]


def _trials(
    experiment: Experiment, levels: Levels, repetition: int, hosts: list[str]
) -> list[Trial]:
    """The measured trial, and its background job where it has one."""
    workers, servers = int(str(levels["workers"])), int(str(levels["servers"]))
    roster = members.roster(workers, servers, hosts)
    if levels["beside"] is None:
        cell = short(levels)
        return [Trial(f"{cell}-r{repetition}", cell, repetition, "measured", levels, roster)]
    job = _background(experiment, levels)
    cell, other = short([levels, job]), short(job)
    name = f"{cell}-r{repetition}"
    lone = members.roster(1, 0, hosts)
    return [
        Trial(name, cell, repetition, "measured", levels, roster),
        Trial(f"{name}-beside", other, repetition, "background", job, lone),
    ]


def _background(experiment: Experiment, beside: Levels) -> Levels:
    """The levels of a background job: on the platform of the trial that it runs beside."""
    job = experiment.backgrounds[str(beside["beside"])]
    chosen: Levels = {
        **{name: beside[name] for name in PLATFORM},
        **job.options,
        **{"cpus": job.cpus, "quota": job.quota, "memory": job.memory, "gpus": beside["gpus"]},
    }
    return _resolve(job.workload, {**chosen, **_scenario({})})


def _varying(experiment: Experiment, cells: list[Levels]) -> list[str]:
    """The factors that tell cells apart; options that follow from another's level do not."""
    names = [name for name in cells[0] if name in PLATFORM or name in experiment.factors]
    return [name for name in names if len({repr(levels[name]) for levels in cells}) > 1]


def _baseline(experiment: Experiment) -> Levels:
    """The baseline with the network that its runtime implies."""
    baseline = dict(experiment.baseline)
    if "runtime" in baseline:
        baseline.setdefault("network", NETWORKS[str(baseline["runtime"])][0])
    return baseline


def _estimate(slots: list[Slot], hosts: list[Host]) -> dict[str, float]:
    """Seconds and bytes of the whole plan: rough, and rather too much."""
    cores = {host.name: host.cores for host in hosts}
    time, disk = 0.0, 0.0
    for slot in slots:
        time += slot_seconds(slot.trials[0].levels, cores[slot.hosts[0]]) + TRIAL_OVERHEAD_S
        for trial in slot.trials:
            steps = sum(int(str(trial.levels.get(k) or 0)) for k in ("steps", "warmup_steps"))
            disk += RECORD_BYTES + STEP_BYTES * steps
    return {"seconds": time, "bytes": disk}


def slot_seconds(levels: Levels, cores: int) -> float:
    """The workload's own estimate of one trial, with its share of the cores."""
    options = {name: level for name, level in levels.items() if name not in BUILT_IN}
    workload = str(options.pop("workload"))
    sharing = int(str(levels["workers"])) if _hosts_needed(levels) == 1 else 1
    sharing += levels["beside"] is not None
    share = workloads.estimate(workload, workloads.options(workload)(**options), cores / sharing)
    return share + (BACKGROUND_START_S if levels["beside"] is not None else 0.0)


def _check_budget(experiment: Experiment, plan: Plan) -> None:
    time, disk = plan.estimate["seconds"], plan.estimate["bytes"]
    if time > units.seconds(experiment.time_budget):
        raise Refused(
            f"the plan needs about {units.duration(time)}, more than its time_budget",
            example="time_budget: 24h",
            given=f"time_budget: {experiment.time_budget}, {len(plan.slots)} slots",
            then="raise the budget, lower repeats or steps, or run a slice",
        )
    if disk > units.size(experiment.disk_budget):
        raise Refused(
            f"the plan writes about {units.bytes_text(disk)}, more than its disk_budget",
            example="disk_budget: 20G",
            given=f"disk_budget: {experiment.disk_budget}, {len(plan.slots)} slots",
            then="raise the budget, or lower repeats or steps",
        )


def _check_memory(plan: Plan, hosts: list[Host]) -> None:
    available = {host.name: host.memory for host in hosts if host.memory}
    for slot in plan.slots:
        for name in slot.hosts:
            needed = sum(_memory(trial, name) for trial in slot.trials)
            if needed > available.get(name, needed):
                raise Refused(
                    f"{name} has not enough memory for slot {slot.slot}",
                    example="memory: 8G",
                    given=f"{units.bytes_text(needed)} needed, "
                    f"{units.bytes_text(available[name])} available",
                    then="lower memory, or end what else runs on the host",
                )


def _memory(trial: Trial, host: str) -> int:
    """Bytes that the members of a trial need on one host."""
    floor = workloads.workload(str(trial.levels["workload"])).MEMORY
    here = [member for member in trial.members if member["host"] == host]
    return len(here) * int(str(trial.levels["memory"] or floor))


def substrate_of(groups: list[str], virtualisation: str) -> str:
    """The substrate a host's groups declare; without one, what was detected. Raises Refused."""
    declared = [name for name in SUBSTRATES if name in groups]
    if len(declared) > 1:
        raise Refused("a host has one substrate", given=", ".join(declared))
    if declared:
        return declared[0]
    return "bare_metal" if virtualisation in ("", "none") else "vm"
