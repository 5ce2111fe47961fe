"""Duets: both arms of a pair at the same time in one slot, each on its half of the host's CPUs.

What changes the speed of the host meanwhile changes both. The halves belong to the slot and not to
the cell, and are swapped from round to round, so that what sets them apart falls on both arms
alike. Every arm also has a duet with itself, under the label of the A/A arm: how it fares beside
its own like says what the two of a pair take from each other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import NoReturn

from strata import networks, runtimes
from strata.cell import Cell, Levels
from strata.errors import Refused
from strata.host import cpus

import workloads

from . import cells as design
from .placing import Host, Pools

Pair = tuple[Cell, Cell]  # the one that is compared with, and the one that is compared
SIDES = (1, 2)


def pairs(cells: Sequence[Cell], baseline: Levels) -> list[Pair]:
    """Who is measured beside whom: each arm beside its baseline, and beside itself for the A/A.

    Raises Refused where that cannot be.
    """
    known = {(design.case(c, baseline), _platform(c), c.label): c for c in cells}
    references = {design.case(c, baseline): c for c in cells if design.is_baseline(c, baseline)}
    found = []
    for cell in cells:
        case = design.case(cell, baseline)
        other = references.get(case)
        if cell.label == design.CONTROL and baseline.get("label") == "":
            other = known.get((case, _platform(cell), ""))
        if other is None:
            _refuse(cell, "has no baseline with otherwise equal levels")
        elif other is not cell:
            _check(other, cell)
            found.append((other, cell))
    return found


def _platform(cell: Cell) -> str:
    return json.dumps({n: v for n, v in cell.levels.items() if n != "label"}, sort_keys=True)


def _check(*both: Cell) -> None:
    """Raise Refused where two cells cannot be measured beside each other."""
    for cell in both:
        if workloads.workload(cell.workload).ITEMS is None:
            _refuse(cell, "its workload has no steps, by whose times the two are compared")
        if cell.scenario.members > 1:
            _refuse(cell, f"{cell.scenario.members} members take part, on CPUs of their own")
        if cell.scenario.beside is not None:
            _refuse(cell, f"it has {cell.scenario.beside!r} beside it already")
        if cell.resources.cpus is not None:
            _refuse(cell, "its CPUs are stated, and in a duet they belong to the slot")
        if cell.resources.gpus is not None:
            _refuse(cell, "its GPUs cannot be halved")
        if not runtimes.pins(cell.platform.runtime):
            _refuse(cell, f"{cell.platform.runtime} does not hold a program to a CPU set")
    substrates = sorted({cell.platform.substrate for cell in both})
    if len(substrates) > 1:
        _refuse(both[1], f"it is on {' and '.join(substrates)}, which are no one host")
    needed = sorted({networks.get(cell.platform.network).setting for cell in both})
    if len(needed) > 1:
        said = " and ".join(repr(name) for name in needed)
        _refuse(both[1], f"the two need the settings {said}, and a host has one at a time")


def _refuse(cell: Cell, why: str) -> NoReturn:
    raise Refused(
        "in a duet two arms are measured at the same time on one host, each on half of its CPUs",
        given=f"{cell.platform} {cell.label}".strip() + f": {why}",
        then="measure the arms one after the other (design: pairs), or exclude what does not fit",
    )


def pool(pair: Pair, pools: Pools) -> list[Host]:
    """The hosts on which both can run. Raises Refused where one has no two equal halves of CPUs,
    or there is none."""
    names = {host.name for host in pools[pair[1].name]}
    found = [host for host in pools[pair[0].name] if host.name in names]
    if not found:
        _refuse(pair[1], "no host can run both")
    for host in found:
        if host.siblings is not None:
            _halves(host.name, host.siblings)
    return found


def _halves(name: str, cores: Sequence[Sequence[int]]) -> None:
    try:
        cpus.halves(cores)
    except Refused as refused:
        given = f"{name}, {refused.given}"
        then = refused.then
        raise Refused(refused.rule, example=refused.example, given=given, then=then) from None


class Sides:
    """Which half each of a pair has: as the seed decides at first, then swapped in every round."""

    def __init__(self, order: random.Random) -> None:
        self._order = order
        self._first: dict[tuple[str, str], int] = {}

    def of(self, pair: Pair, turn: int) -> list[tuple[Cell, int]]:
        """The cells of a pair with their sides, in the order of these, in its turn from 1."""
        one, other = pair
        first = self._first.setdefault((one.name, other.name), self._order.randrange(2))
        ordered = (one, other) if (turn + first) % 2 else (other, one)
        return list(zip(ordered, SIDES, strict=True))
