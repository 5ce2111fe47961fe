"""From the topology that a workload declares to the members of a trial: how many, and where.

The topology is `workloads._declare.Topology`; a cell says how many members of each of its roles.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

from strata.cell import Cell, Levels, Scenario
from strata.members import FIRST_PORT, Member

import workloads
from workloads._declare import ONE, Topology


def of(workload: str, distribution: str) -> Topology:
    """That of a trial: workers that share no gradients are not several, whatever they could be."""
    declared = workloads.workload(workload).TOPOLOGY
    return ONE if declared.shares and distribution == "none" else declared


def scenario(workload: str, chosen: Levels) -> Scenario:
    """How many take part and where, with one spelling for one meaning.

    A lone trial has no servers and no placement, and a ring no servers, whatever is stated.
    """
    declared = workloads.workload(workload).TOPOLOGY
    distribution = str(chosen.get("distribution") or declared.distributions[0])
    topology = of(workload, distribution)
    first, *others = topology.roles
    # A ring has workers only.
    second = next(iter(others), None) if distribution != "ring" else None
    # The levels have been read: `levels.FACTORS` says what each of them is.
    return Scenario.of(
        {
            "distribution": distribution,
            "workers": chosen.get("workers") or first.least,
            "servers": (chosen.get("servers") or max(1, second.least)) if second else 0,
            "placement": chosen.get("placement") or "spread" if topology.several else "spread",
            "beside": chosen.get("beside"),
        }
    )


def counts(topology: Topology, asked: Scenario) -> dict[str, int]:
    """How many members each role has."""
    numbers = (asked.workers, asked.servers)
    return {role.name: n for role, n in zip(topology.roles, numbers, strict=False)}


def allows(topology: Topology, asked: Scenario) -> bool:
    """Whether each role may have as many members."""
    found = counts(topology, asked)
    return all(
        role.least <= found[role.name] <= (role.most or found[role.name]) for role in topology.roles
    )


def hosts(cell: Cell) -> int:
    """How many hosts a trial of the cell needs."""
    topology = of(cell.workload, cell.scenario.distribution)
    if cell.scenario.placement != "spread":
        return 1
    return topology.hosts or cell.scenario.workers


def ports(cell: Cell) -> int:
    """How many ports the members of a trial listen on."""
    if cell.scenario.members == 1:
        return 0
    found = counts(of(cell.workload, cell.scenario.distribution), cell.scenario)
    declared = workloads.workload(cell.workload).PORTS
    return sum(found.get(role, 0) for port in declared for role in port.roles)


def roster(cell: Cell, chosen: list[str]) -> list[Member]:
    """The members of a trial on these hosts; the first of them is the chief.

    Where the topology says how many hosts there are, members go to them in turn. Where there is a
    host for each member of the first role, those of every role begin with the first host. The ports
    of each protocol are counted by themselves: where all who listen have as many of TCP as of UDP,
    each has the same numbers for both.
    """
    topology = of(cell.workload, cell.scenario.distribution)
    found: list[Member] = []
    for role, count in counts(topology, cell.scenario).items():
        before = 0 if topology.hosts is None else len(found)
        for index in range(count):
            host = chosen[(before + index) % len(chosen)]
            found.append({"role": role, "index": index, "host": host, "ports": []})
    numbers: dict[str, Iterator[int]] = defaultdict(lambda: itertools.count(FIRST_PORT))
    declared = workloads.workload(cell.workload).PORTS if len(found) > 1 else ()
    for member in found:
        member["ports"] = [
            {"name": port.name, "protocol": port.protocol, "number": next(numbers[port.protocol])}
            for port in declared
            if member["role"] in port.roles
        ]
    return found
