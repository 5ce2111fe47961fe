"""From an experiment and a testbed to the seeded, randomised, interleaved list of slots."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

from strata import members, networks, units
from strata.cell import Cell, Levels
from strata.errors import Refused
from strata.identity import digest

import workloads

from . import blocks, duets, families, placing, stopping, topology
from . import cells as design
from .experiment import Experiment, canonical, parts
from .levels import SUBSTRATES
from .placing import Host, Pools

__all__ = ["Host", "Plan", "Slot", "Trial", "make", "slot_seconds", "substrate_of"]

# What a trial needs on the controller's disk beside its steps: record, usage, logs.
RECORD_BYTES = 256 * 1024
STEP_BYTES = 120
# From the launch of a background job to its first measured step.
BACKGROUND_START_S = 30.0
# Launching a module, settling, two reference bursts, writing the record.
TRIAL_OVERHEAD_S = 2.0
# Each is an entry in plan.json. Ten times what the largest design of a paper needs in a week.
MOST_PROGRAMS = 100_000


@dataclass(frozen=True)
class Trial:
    trial: str
    cell: str
    repetition: int
    role: str
    family: str  # whose image it runs from
    levels: Levels
    members: list[members.Member]
    scratch: bool  # whether it is given space to write to
    side: int = 0  # of a duet, which half of the host's CPUs it has, 1 or 2


@dataclass(frozen=True)
class Slot:
    """What runs at the same time: one trial, a trial beside its background job, a duet."""

    slot: str
    block: str
    setting: str  # that the block is a visit of; '' for none
    round: int  # of the block, from 1
    position: int  # in the round, from 1
    hosts: list[str]
    trials: list[Trial]
    rebuild: int = 0  # of the testbed, on which its block is measured; 0 where it is built once


@dataclass(frozen=True)
class Plan:
    slots: list[Slot]
    estimate: dict[str, float]
    left_out: list[dict[str, str]]
    confounds: list[dict[str, str]]
    factors: list[str]
    baseline: Levels

    def document(self) -> dict[str, Any]:
        """plan.json less its schema number."""
        return {"slots": [asdict(slot) for slot in self.slots], "estimate": self.estimate}

    @property
    def identity(self) -> str:
        return digest(self.document()["slots"])


def make(asked: Experiment, hosts: list[Host]) -> Plan:
    """Expand, check, price, place and shuffle an experiment on `hosts`. Raises Refused.

    What is too much is refused by arithmetic, before the slots are laid out.
    """
    experiments = [canonical(part) for part in parts(asked)]
    for experiment in experiments:
        _check_groups(experiment, hosts)
    cells, left_out = _possible(experiments, hosts)
    baseline = design.baseline(experiments[0])
    design.check_baseline(cells, baseline, left_out)
    stopping.check(experiments[0], cells, baseline, {setting(cell) for cell in cells})
    pools = placing.pools(cells, baseline, hosts)
    arms = _arms(asked.design, cells, pools, baseline)
    estimate = _estimate(arms, asked.repeats)
    _check_budget(asked, estimate, len(cells))
    slots = _slots(asked, arms)
    _check_memory(slots, hosts)
    return Plan(
        slots,
        estimate,
        left_out,
        [] if asked.design == "duet" else placing.confounds(cells, baseline, pools),
        design.varying({name for each in experiments for name in each.factors}, cells),
        baseline,
    )


@dataclass(frozen=True)
class Together:
    """The cells that are measured at the same time in one slot, one or the two of a duet, and the
    hosts on which they are in turn."""

    cells: tuple[Cell, ...]
    pool: list[Host]

    @property
    def setting(self) -> str:
        """The same for all of them."""
        return setting(self.cells[0])


def _arms(
    kind: str, cells: list[Cell], pools: Pools, baseline: Levels
) -> list[blocks.Arm[Together]]:
    """What is scheduled. Raises Refused where a duet cannot be."""
    if kind == "duet":
        together = [Together(p, duets.pool(p, pools)) for p in duets.pairs(cells, baseline)]
    else:
        together = [Together((cell,), pools[cell.name]) for cell in cells]
    return [blocks.Arm(t, t.setting, design.case(t.cells[0], baseline)) for t in together]


def _possible(
    experiments: list[Experiment], hosts: list[Host]
) -> tuple[list[Cell], list[dict[str, str]]]:
    """The cells that hosts can be had for, and what is left out and why. Raises Refused."""
    cells, reasons = [], {}
    substrates = [host.substrate for host in hosts]
    for cell in (cell for each in experiments for cell in design.expand(each, substrates)):
        why = placing.why_not(cell, hosts)
        if why:
            reasons[placing.said(cell)] = why
        else:
            cells.append(cell)
    left_out = [{"what": what, "why": why} for what, why in reasons.items()]
    if not cells:
        given = "; ".join(f"{item['what']}: {item['why']}" for item in left_out)
        raise Refused(
            "the design is empty: no cell is left to run",
            given=given or f"exclude: {experiments[0].exclude}",
            then="remove a rule from exclude, ask for a network or storage that the runtime has, "
            "or give the testbed what it needs",
        )
    return cells, left_out


def _check_groups(experiment: Experiment, hosts: list[Host]) -> None:
    """Each runtime and substrate that is asked for has a host in its inventory group."""
    have = {
        "runtime": sorted({runtime for host in hosts for runtime in host.runtimes}),
        "substrate": sorted({host.substrate for host in hosts}),
    }
    implied: dict[str, list[Any]] = {"runtime": ["native"], "substrate": []}
    for name, groups in have.items():
        fixed = [experiment.options[name]] if name in experiment.options else implied[name]
        for level in experiment.factors.get(name, fixed):
            if level not in groups:
                raise Refused(
                    f"{experiment.name} needs a host in the inventory group {level!r}",
                    example=f"{level}: {{hosts: {{node1: }}}}",
                    given=f"groups with hosts: {', '.join(groups) or 'none'}",
                    then=f"add a host to {level!r}, or take {level!r} out of factors.{name}",
                )


def _slots(experiment: Experiment, arms: list[blocks.Arm[Together]]) -> list[Slot]:
    """Every turn of the schedule as a slot, on hosts that all turns of a round share."""
    order = random.Random(experiment.seed)  # noqa: S311 - a reproducible shuffle, no secret
    turns = blocks.schedule(arms, experiment.repeats, experiment.visits, order, experiment.rebuilds)
    sides, seen = duets.Sides(order), Counter[str]()
    slots: list[Slot] = []
    for turn in turns:
        own = turn.cell.cells
        hosts = [host.name for host in placing.place(own[0], turn.cell.pool, turn.sweep)]
        name, block = f"s{len(slots) + 1:04d}", f"b{turn.block}"
        # A cell is in several duets, and in each of its turns it is another repetition.
        seen.update(cell.name for cell in own)
        placed = sides.of((own[0], own[1]), turn.repetition) if len(own) > 1 else [(own[0], 0)]
        trials = [t for c, side in placed for t in _trials(c, seen[c.name], hosts, side)]
        place = (turn.setting, turn.round, turn.position)
        slots.append(Slot(name, block, *place, hosts, trials, turn.rebuild))
    return slots


def setting(cell: Cell) -> str:
    """What must be switched to before the cell can be measured; '' where nothing must."""
    return networks.get(cell.platform.network).setting


def _trials(cell: Cell, repetition: int, hosts: list[str], side: int) -> list[Trial]:
    """The measured trial, and its background job where it has one."""
    name = f"{cell.name}-r{repetition}"
    found = [replace(_trial(name, cell, repetition, "measured", hosts), side=side)]
    if cell.job is not None:
        found.append(_trial(f"{name}-beside", cell.job, repetition, "background", hosts))
    return found


def _trial(name: str, cell: Cell, repetition: int, role: str, hosts: list[str]) -> Trial:
    family, scratch = (
        families.of(cell.workload, cell.options),
        workloads.workload(cell.workload).WRITABLE,
    )
    roster = topology.roster(cell, hosts)
    return Trial(name, cell.name, repetition, role, family, cell.levels, roster, scratch)


def _estimate(arms: list[blocks.Arm[Together]], repeats: int) -> dict[str, float]:
    """Seconds and bytes of the whole plan: rough, and rather too much."""
    seconds, size, programs = 0.0, 0, 0
    for arm, settings in zip(arms, blocks.settings_of(arms), strict=True):
        own = arm.cell.cells
        turns = repeats * len(settings)
        cores = min(host.cores for host in arm.cell.pool) / len(own)
        seconds += turns * (max(slot_seconds(c.levels, cores) for c in own) + TRIAL_OVERHEAD_S)
        size += turns * sum(_record_bytes(job) for c in own for job in (c, c.job) if job)
        programs += turns * sum(cell.scenario.members for cell in own)
    return {"seconds": seconds, "bytes": float(size), "programs": float(programs)}


def _record_bytes(cell: Cell) -> int:
    asked = (cell.options.get(name) for name in ("steps", "warmup_steps"))
    steps = sum(number for number in asked if isinstance(number, int))
    return RECORD_BYTES + STEP_BYTES * steps


def slot_seconds(levels: Levels, cores: float) -> float:
    """The workload's own estimate of one trial, with its share of the cores."""
    cell = Cell.of(levels)
    beside = cell.scenario.beside is not None
    sharing = (cell.scenario.workers if topology.hosts(cell) == 1 else 1) + beside
    options = workloads.options(cell.workload).parse(cell.options)
    share = workloads.estimate(cell.workload, options, cores / sharing)
    return share + (BACKGROUND_START_S if beside else 0.0)


def _check_budget(experiment: Experiment, estimate: dict[str, float], cells: int) -> None:
    time, disk, programs = (estimate[name] for name in ("seconds", "bytes", "programs"))
    size = f"{cells} cells, {experiment.repeats} repeats"
    if time > units.seconds(experiment.time_budget):
        raise Refused(
            f"the plan needs about {units.duration(time)}, more than its time_budget",
            example="time_budget: 24h",
            given=f"time_budget: {experiment.time_budget}, {size}",
            then="raise the budget, lower repeats or steps, or run a slice",
        )
    if disk > units.size(experiment.disk_budget):
        raise Refused(
            f"the plan writes about {units.bytes_text(disk)}, more than its disk_budget",
            example="disk_budget: 20G",
            given=f"disk_budget: {experiment.disk_budget}, {size}",
            then="raise the budget, or lower repeats or steps",
        )
    if programs > MOST_PROGRAMS:
        raise Refused(
            f"a plan starts at most {MOST_PROGRAMS} programs",
            given=f"{size}, {programs:.0f} workers and servers in all",
            then="lower repeats or workers, or make several experiments of it",
        )


def _check_memory(slots: list[Slot], hosts: list[Host]) -> None:
    """Of a host that is not there yet, it is known what it will have in all."""
    has = {host.name: host.memory or host.memory_total for host in hosts}
    for slot in slots:
        for name in slot.hosts:
            needed = sum(_memory(trial, name) for trial in slot.trials)
            there = has[name] or needed
            if needed > there:
                raise Refused(
                    f"{name} has not enough memory for slot {slot.slot}",
                    example="memory: 8G",
                    given=f"{units.bytes_text(needed)} needed, {units.bytes_text(there)} available",
                    then="lower memory, or end what else runs on the host",
                )


def _memory(trial: Trial, host: str) -> int:
    """Bytes that the members of a trial need on one host."""
    cell = Cell.of(trial.levels)
    here = [member for member in trial.members if member["host"] == host]
    return len(here) * (cell.resources.memory or workloads.workload(cell.workload).MEMORY)


def substrate_of(groups: list[str], virtualisation: str) -> str:
    """The substrate a host's groups declare; without one, what was detected. Raises Refused."""
    declared = [name for name in SUBSTRATES if name in groups]
    if len(declared) > 1:
        raise Refused("a host has one substrate", given=", ".join(declared))
    if declared:
        return declared[0]
    return "bare_metal" if virtualisation in ("", "none") else "vm"
