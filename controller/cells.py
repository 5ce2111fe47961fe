"""The cells of a design: every valid combination of levels, and what they are compared with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from strata.errors import Refused
from strata.identity import digest, short
from strata.members import FIRST_PORT, LAST_PORT, MOST_MEMBERS
from strata.networks import NETWORKS

from .experiment import Experiment, options_of, resolve_options
from .levels import PLATFORM, RESOURCES, SCENARIO, Level, Levels

# What is compared with a factor without being named: a runtime has its own network, a
# distribution a number of members and a place for them. The analysis has it so, too.
IMPLIED = {"runtime": ("network",), "distribution": ("workers", "servers", "placement")}
# A grid of a paper has a few hundred. More of them is a slip, and would take minutes to lay out.
MOST_COMBINATIONS = 10_000


@dataclass(frozen=True)
class Cell:
    """One combination: all resolved levels, and those of its background job where it has one."""

    levels: Levels
    job: Levels | None = None

    @cached_property
    def name(self) -> str:
        return short(self.levels if self.job is None else [self.levels, self.job])

    @property
    def members(self) -> int:
        return int(str(self.levels["workers"])) + int(str(self.levels["servers"]))

    @property
    def hosts(self) -> int:
        """How many hosts it needs."""
        return int(str(self.levels["workers"])) if self.levels["placement"] == "spread" else 1


def expand(experiment: Experiment, substrates: Iterable[str]) -> list[Cell]:
    """Every valid cell in the order of the factors. Raises Refused."""
    stated = _factors(experiment, substrates)
    _check_combinations(stated)
    found: dict[str, Cell] = {}
    for combination in itertools.product(*stated.values()):
        chosen = {**experiment.options, **dict(zip(stated, combination, strict=True))}
        chosen.setdefault("network", NETWORKS[str(chosen["runtime"])][0])
        chosen = {**chosen, **_scenario(chosen)}
        if _fits(chosen) and not _excluded(chosen, experiment):
            cell = _resolve(experiment.workload, chosen)
            found.setdefault(digest(cell), Cell(cell, _background(experiment, cell)))
    return list(found.values())


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
    found: Levels = {
        **{name: chosen[name] for name in PLATFORM},
        "label": chosen.get("label", ""),
        "workload": workload,
        **{name: chosen.get(name) for name in RESOURCES},
        **{name: chosen[name] for name in SCENARIO},
        **resolve_options(workload, options_of(chosen)),
    }
    members = int(str(found["workers"])) + int(str(found["servers"]))
    if members > MOST_MEMBERS:
        raise Refused(
            f"each member of a trial has a port, from {FIRST_PORT} to {LAST_PORT}",
            example="workers: [1, 2], servers: [1]",
            given=f"workers: {found['workers']}, servers: {found['servers']}",
        )
    return found


def _background(experiment: Experiment, beside: Levels) -> Levels | None:
    """The levels of a background job: on the platform of the trial that it runs beside."""
    if beside["beside"] is None:
        return None
    job = experiment.backgrounds[str(beside["beside"])]
    chosen: Levels = {
        **{name: beside[name] for name in PLATFORM},
        **job.options,
        **job.resources,
        "gpus": beside["gpus"],
    }
    return _resolve(job.workload, {**chosen, **_scenario({})})


def _excluded(chosen: Levels, experiment: Experiment) -> bool:
    return any(
        all(chosen.get(name) in listed for name, listed in rule.items())
        for rule in experiment.excluded
    )


def varying(experiment: Experiment, cells: list[Cell]) -> list[str]:
    """The factors that tell cells apart; options that follow from another's level do not."""
    names = [name for name in cells[0].levels if name in PLATFORM or name in experiment.factors]
    return [name for name in names if _differs(name, cells)]


def _differs(name: str, cells: list[Cell]) -> bool:
    return len({repr(cell.levels[name]) for cell in cells}) > 1


def baseline(experiment: Experiment) -> Levels:
    """The experiment's, with the network that its runtime implies."""
    found = dict(experiment.baseline)
    if "runtime" in found:
        found.setdefault("network", NETWORKS[str(found["runtime"])][0])
    return found


def is_baseline(cell: Cell, of: Levels) -> bool:
    return bool(of) and all(cell.levels.get(name) == level for name, level in of.items())


def compared(of: Levels) -> set[str]:
    """The factors in which a side may differ from the baseline: those that it names, and theirs."""
    return set(of).union(*(IMPLIED.get(name, ()) for name in of))


def case(cell: Cell, of: Levels) -> str:
    """Equal for cells that are compared with each other."""
    names = compared(of)
    return digest({name: level for name, level in cell.levels.items() if name not in names})


def check_baseline(cells: list[Cell], of: Levels) -> None:
    """Raises Refused where nothing would be compared though there are sides to compare."""
    if any(is_baseline(cell, of) for cell in cells):
        return
    if of:
        near = max(cells, key=lambda cell: sum(cell.levels.get(n) == v for n, v in of.items()))
        raise Refused(
            "the baseline matches no cell: nothing would be compared",
            example=f"baseline: {_flow({name: near.levels.get(name) for name in of})}",
            given=f"baseline: {_flow(of)}",
            then="name levels of cells that are run; is one of them excluded, or left out?",
        )
    sides = [name for name in (*PLATFORM, "label") if _differs(name, cells)]
    if sides:
        raise Refused(
            f"the design varies {', '.join(sides)} and has no baseline to compare with",
            example=f"baseline: {_flow({name: cells[0].levels[name] for name in sides})}",
            given="baseline: {}",
        )


def _flow(values: dict[str, Any]) -> str:
    """As a person writes it in YAML."""
    said = (f"{k}: {'null' if v is None else v}" for k, v in values.items())
    return "{" + ", ".join(said) + "}"
