"""The cells of a design: every valid combination of levels, and what they are compared with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from strata import ends, networks, runtimes, storage
from strata.cell import PLATFORM, Cell, Level, Levels, Platform, Resources, Scenario
from strata.errors import Refused
from strata.identity import digest
from strata.members import FIRST_PORT, LAST_PORT, MOST_PORTS

from workloads._place import OWN, TRANSPORTS

from . import topology
from .experiment import Experiment, options_of, resolve_options

# What is compared with a factor without being named: a runtime has its own network, a
# distribution a number of members and a place for them. The analysis has it so, too.
IMPLIED = {"runtime": ("network",), "distribution": ("workers", "servers", "placement")}
# The label of the A/A arm.
CONTROL = "control"
# A grid of a paper has a few hundred. More of them is a slip, and would take minutes to lay out.
MOST_COMBINATIONS = 10_000


def expand(experiment: Experiment, substrates: Iterable[str]) -> list[Cell]:
    """Every valid cell of one workload, in the order of the factors. Raises Refused."""
    stated = _factors(experiment, substrates)
    _check_combinations(stated)
    found: dict[str, Cell] = {}
    for combination in itertools.product(*stated.values()):
        chosen = {**experiment.options, **dict(zip(stated, combination, strict=True))}
        chosen.setdefault("network", networks.of(str(chosen["runtime"]))[0])
        asked = topology.scenario(experiment.workload, chosen)
        chosen |= asdict(asked)
        if asked.distribution == "none" and "transport" in chosen:
            chosen["transport"] = OWN  # a lone worker has none: one spelling for one meaning
        if networks.get(str(chosen["network"])).of_host:
            chosen |= {name: usual for name, usual in ends.USUAL.items() if name in chosen}
        fits = _fits(experiment.workload, Platform.of(chosen), asked)
        able = _has_storage(chosen) and _has_transport(chosen)
        if fits and able and not _excluded(chosen, experiment):
            cell = _resolve(experiment.workload, chosen, asked)
            found.setdefault(cell.name, replace(cell, job=_background(experiment, cell)))
    return [*found.values(), *_controls(experiment, list(found.values()))]


def _controls(experiment: Experiment, cells: list[Cell]) -> list[Cell]:
    """The baseline once more under another label: what differs between the two is chance (A/A).

    In duets every arm once more, to be beside itself. None where the experiment does not want it,
    has labels of its own, compares nothing, or measures every cell once, which says nothing of
    chance.
    """
    if not has_control(experiment):
        return []
    of = baseline(experiment)
    if all(is_baseline(cell, of) for cell in cells):
        return []
    every = experiment.design == "duet"
    return [replace(cell, label=CONTROL) for cell in cells if every or is_baseline(cell, of)]


def has_control(experiment: Experiment) -> bool:
    """Whether the plan has an A/A arm."""
    labelled = "label" in experiment.factors or "label" in experiment.options
    several = experiment.repeats > 1
    return experiment.control and several and bool(experiment.baseline) and not labelled


def _factors(experiment: Experiment, substrates: Iterable[str]) -> dict[str, list[Level]]:
    """The experiment's, after the two that every design has unless it states them otherwise."""
    implied: dict[str, list[Level]] = {
        "substrate": [*sorted(set(substrates))],
        "runtime": ["native"],
    }
    fixed = experiment.options
    return {k: v for k, v in implied.items() if k not in fixed} | experiment.factors


def _check_combinations(stated: dict[str, list[Level]]) -> None:
    """By arithmetic, before any is made."""
    number = math.prod(map(len, stated.values()))
    if number > MOST_COMBINATIONS:
        raise Refused(
            f"a design has at most {MOST_COMBINATIONS} combinations of levels",
            given=" x ".join(f"{len(v)} {k}" for k, v in stated.items()) + f" = {number}",
            then="vary fewer factors at once, or give some of them fewer levels",
        )


def _fits(workload: str, platform: Platform, asked: Scenario) -> bool:
    """Whether a platform and a scenario can go together at all."""
    shape = topology.of(workload, asked.distribution)
    return (
        platform.network in networks.of(platform.runtime)
        and topology.allows(shape, asked)
        and (networks.get(platform.network).peers != "none" or not shape.several)
        # A background job is on one host, and so is what runs beside it.
        and (asked.beside is None or not shape.several or asked.placement != "spread")
    )


def _has_storage(chosen: Levels) -> bool:
    """Whether the runtime has the storage that is asked for, if any is."""
    return chosen.get(storage.OPTION, storage.DISK) in storage.of(str(chosen["runtime"]))


def _has_transport(chosen: Levels) -> bool:
    """Whether the transport of gradients can do what the distribution needs, if it needs any."""
    # One that only a single workload has is that workload's affair.
    able = TRANSPORTS.get(str(chosen.get("transport", OWN)), TRANSPORTS[OWN])
    return chosen["distribution"] in ("none", *able)


def _resolve(workload: str, chosen: Levels, asked: Scenario) -> Cell:
    """The cell with all of its levels. Raises Refused."""
    cell = Cell(
        platform=Platform.of(chosen),
        workload=workload,
        label=str(chosen.get("label", "")),
        resources=Resources.of({name: chosen.get(name) for name in Resources.names()}),
        scenario=asked,
        options=resolve_options(workload, options_of(chosen)),
    )
    if topology.ports(cell) > MOST_PORTS:
        raise Refused(
            f"each member of a trial has its ports, from {FIRST_PORT} to {LAST_PORT}",
            example="workers: [1, 2], servers: [1]",
            given=f"workers: {asked.workers}, servers: {asked.servers}",
        )
    _check_pinned(cell)
    _check_ends(cell)
    return cell


def _check_pinned(cell: Cell) -> None:
    """Raises Refused where the runtime cannot hold a program to the CPUs that it is given.

    Where the host chooses them, it gives a program some of its own if it has stated memory, too.
    """
    given = cell.resources
    if runtimes.pins(cell.platform.runtime) or (given.cpus is None and given.numa is None):
        return
    if given.numa is not None or given.quota is not None or given.memory is None:
        names = ("cpus", "memory", "numa", "quota")
        stated = {name: getattr(given, name) for name in names}
        raise Refused(
            f"under {cell.platform.runtime} a program has CPUs of its own where it states as many "
            "and its memory, and which they are is the node's to say",
            example='cpus: ["0-1"], memory: [4G]',
            given=f"{cell.platform}, {_flow({k: v for k, v in stated.items() if v is not None})}",
            then=f"state both, or exclude {{runtime: {cell.platform.runtime}, ...}}",
        )


def _check_ends(cell: Cell) -> None:
    """Raises Refused where the ends cannot stand so, or the client cannot get to the server so."""
    why = ends.why_not(cell)
    if why:
        stated = {name: cell.options[name] for name in ends.USUAL}
        raise Refused(
            f"the ends of a test stand where their network has them: {why}",
            example="network: [host, flannel_vxlan], ends: [both, client_only, server_only]",
            given=f"{cell.platform}, {_flow(stated)}",
            then=f"exclude {{network: {cell.platform.network}, ...}}",
        )


def _background(experiment: Experiment, beside: Cell) -> Cell | None:
    """A background job: on the platform and the GPUs of the trial that it runs beside."""
    if beside.scenario.beside is None:
        return None
    job = experiment.backgrounds[beside.scenario.beside]
    chosen: Levels = {
        **asdict(beside.platform),
        **job.options,
        **job.resources,
        "gpus": beside.resources.gpus,
    }
    return _resolve(job.workload, chosen, Scenario())


def _excluded(chosen: Levels, experiment: Experiment) -> bool:
    return any(
        all(chosen.get(name) in listed for name, listed in rule.items())
        for rule in experiment.excluded
    )


def varying(factors: Collection[str], cells: list[Cell]) -> list[str]:
    """The factors that tell cells apart; options that follow from another's level do not."""
    known = dict.fromkeys(name for cell in cells for name in cell.levels)
    names = [name for name in known if name in (*PLATFORM, "workload") or name in factors]
    return [name for name in names if _differs(name, cells)]


def _differs(name: str, cells: list[Cell]) -> bool:
    """Whether cells that have it have several levels of it."""
    return len({repr(cell.levels[name]) for cell in cells if name in cell.levels}) > 1


def baseline(experiment: Experiment) -> Levels:
    """The experiment's, with the network that its runtime implies, and the label of no control."""
    found = dict(experiment.baseline)
    if "runtime" in found:
        found.setdefault("network", networks.of(str(found["runtime"]))[0])
    if has_control(experiment):
        found.setdefault("label", "")
    return found


def is_baseline(cell: Cell, of: Levels) -> bool:
    return bool(of) and all(cell.levels.get(name) == level for name, level in of.items())


def compared(of: Levels) -> set[str]:
    """The factors in which an arm may differ from the baseline: those that it names, and theirs."""
    return set(of).union(*(IMPLIED.get(name, ()) for name in of))


def case(cell: Cell, of: Levels) -> str:
    """Equal for cells that are compared with each other."""
    return case_of(cell.levels, of)


def case_of(levels: Levels, of: Levels) -> str:
    """The same, by the levels of a cell as a plan has them."""
    names = compared(of)
    return digest({name: level for name, level in levels.items() if name not in names})


def check_baseline(
    cells: list[Cell], of: Levels, left_out: Sequence[Mapping[str, str]] = ()
) -> None:
    """Raises Refused where nothing would be compared though there are arms to compare.

    `left_out` are cells that hosts cannot run, and why: the baseline may be one of them.
    """
    if any(is_baseline(cell, of) for cell in cells):
        _check_ends_are_compared(cells, of)
        return
    if of:
        left = [f"left out: {one['what']}: {one['why']}" for one in left_out]
        near = max(cells, key=lambda cell: sum(cell.levels.get(n) == v for n, v in of.items()))
        raise Refused(
            "the baseline matches no cell: nothing would be compared",
            example=f"baseline: {_flow({name: near.levels.get(name) for name in of})}",
            given="; ".join([f"baseline: {_flow(of)}", *left]),
            then="name levels of cells that are run; is one of them excluded, or left out?",
        )
    arms = [name for name in (*PLATFORM, "label") if _differs(name, cells)]
    if arms:
        raise Refused(
            f"the design varies {', '.join(arms)} and has no baseline to compare with",
            example=f"baseline: {_flow({name: cells[0].levels[name] for name in arms})}",
            given="baseline: {}",
        )


def _check_ends_are_compared(cells: list[Cell], of: Levels) -> None:
    """On the hosts' own network there is one place for both ends: others have no baseline in it."""
    missing = [name for name in ends.USUAL if _differs(name, cells) and name not in of]
    if of.get("network") == "host" and missing:
        raise Refused(
            f"{' and '.join(missing)} are compared with what they are on the hosts' own network",
            example=f"baseline: {_flow({**of, **{name: ends.USUAL[name] for name in missing}})}",
            given=f"baseline: {_flow(of)}",
        )


def _flow(values: dict[str, Any]) -> str:
    """As a person writes it in YAML."""
    said = (f"{k}: {'null' if v is None else v}" for k, v in values.items())
    return "{" + ", ".join(said) + "}"
