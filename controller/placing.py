"""Which hosts can run a cell, and which of them do: the same for all that is compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from strata import networks, runtimes, units
from strata.cell import Cell, Levels
from strata.errors import Refused

from . import cells as design
from . import topology
from .levels import lacking


@dataclass(frozen=True)
class Host:
    """A host of the testbed as the inventory and preflight describe it.

    What is None was not asked yet; sizes are in bytes.
    """

    name: str
    substrate: str
    runtimes: tuple[str, ...]
    cores: int = 1
    missing: dict[str, str] = field(default_factory=dict)  # runtime -> why it cannot be had
    memory: int = 0  # that is available; 0 before the host was asked
    address: str = ""  # where its peers reach it
    memory_total: int | None = None
    cpus: frozenset[int] | None = None
    nodes: frozenset[int] | None = None  # of NUMA
    gpus: frozenset[str] | None = None  # by number and by UUID
    siblings: tuple[tuple[int, ...], ...] | None = None  # its CPUs by core
    networks: tuple[str, ...] | None = None  # those that it has; None where they are switched
    gives_cpus: bool = False  # its node gives pods CPUs of their own


Pools = dict[str, list[Host]]  # a cell's name -> the hosts that it runs on in turn


def why_not(cell: Cell, hosts: list[Host]) -> str:
    """Why no hosts can run this cell, or ''. Raises Refused where none has its resources."""
    runtime = cell.platform.runtime
    candidates = _candidates(cell, hosts)
    if not candidates:
        return f"no {cell.platform.substrate} host is in the group {runtime}"
    able = [host for host in candidates if not _refuses(cell, host)]
    if not able:
        return _refuses(cell, candidates[0])
    usable = _with_resources(cell, able)
    needed = topology.hosts(cell)
    if len(usable) < needed:
        need = f"{needed} such hosts are needed, one for each {_who(cell)}"
        return f"{need}, and there are {len(usable)}"
    return ""


def _refuses(cell: Cell, host: Host) -> str:
    """Why a host can have the runtime or the network of no cell like this one, or ''."""
    missing = host.missing.get(cell.platform.runtime, "")
    return missing or networks.why_not(cell.platform.network, host.networks)


def _who(cell: Cell) -> str:
    """Of whom there is one on each host of a trial that is spread."""
    shape = topology.of(cell.workload, cell.scenario.distribution)
    return shape.roles[0].name if shape.hosts is None else "member"


def _candidates(cell: Cell, hosts: list[Host]) -> list[Host]:
    return [
        host
        for host in hosts
        if host.substrate == cell.platform.substrate and cell.platform.runtime in host.runtimes
    ]


def _with_resources(cell: Cell, hosts: list[Host]) -> list[Host]:
    """Those that have what the cell is given. Raises Refused where none has."""
    lacks = {host.name: _lacks(cell, host) for host in hosts}
    if all(lacks.values()):
        raise Refused(
            "no host of the testbed has what a cell is given",
            example='cpus: [null, "0"]',
            given="; ".join(f"{name} lacks {what}" for name, what in lacks.items()),
            then="ask for what a host has, or exclude the cell",
        )
    return [host for host in hosts if not lacks[host.name]]


def _lacks(cell: Cell, host: Host) -> str:
    missing = lacking(cell.resources, host) or _lacks_own_cpus(cell, host)
    return missing or (_lacks(cell.job, host) if cell.job else "")


def _lacks_own_cpus(cell: Cell, host: Host) -> str:
    """Where the host chooses the CPUs of a program, it keeps one for all that has none."""
    if cell.resources.cpus is None or runtimes.pins(cell.platform.runtime):
        return ""
    if not host.gives_cpus:
        return "a node that gives pods CPUs of their own (kubernetes_cpu_manager: static)"
    asked, there = len(units.cpu_set(cell.resources.cpus)), len(host.cpus or ())
    return f"{asked} CPUs beside its own, of {there}" if there and asked >= there else ""


def usable(cell: Cell, hosts: list[Host]) -> list[Host]:
    """The hosts that can run the cell, in the order of the inventory."""
    able = [host for host in _candidates(cell, hosts) if not _refuses(cell, host)]
    return _with_resources(cell, able)


def pools(cells: list[Cell], baseline: Levels, hosts: list[Host]) -> Pools:
    """The hosts of each cell: those that all cells of its substrate have in common.

    Where these are too few, those that all cells have in common with which it is compared; and
    only where these too are too few, its own.
    """
    own = {cell.name: usable(cell, hosts) for cell in cells}
    found: Pools = dict(own)

    def share(group: Callable[[Cell], Hashable]) -> None:
        groups: dict[Hashable, list[Cell]] = defaultdict(list)
        for cell in cells:
            groups[group(cell)].append(cell)
        for peers in groups.values():
            names = set.intersection(*({host.name for host in own[c.name]} for c in peers))
            if len(names) >= max(map(topology.hosts, peers)):
                common = [host for host in hosts if host.name in names]
                found.update({cell.name: common for cell in peers})

    share(lambda cell: (cell.platform.substrate, design.case(cell, baseline)))
    share(lambda cell: cell.platform.substrate)
    return found


def confounds(cells: list[Cell], baseline: Levels, chosen: Pools) -> list[dict[str, str]]:
    """Comparisons whose arms are not on the same hosts: `what` is compared, and `why` it matters.

    An effect of these hosts cannot be separated from an effect of what is compared.
    """
    references: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        if design.is_baseline(cell, baseline):
            references[design.case(cell, baseline)].append(cell)
    found: dict[tuple[str, str], None] = {}
    for cell in cells:
        for reference in references[design.case(cell, baseline)]:
            here, there = _names(chosen[cell.name]), _names(chosen[reference.name])
            if here != there:
                why = f"{here} against {there}: what else differs between them counts too"
                found[_against(cell, reference, baseline), why] = None
    return [{"what": what, "why": why} for what, why in found]


def _names(hosts: list[Host]) -> str:
    return ", ".join(host.name for host in hosts)


def _against(cell: Cell, reference: Cell, baseline: Levels) -> str:
    """`vm against bare_metal`: the levels of the baseline's factors in which the two differ."""
    names = [name for name in baseline if cell.levels[name] != reference.levels[name]]
    arms = ("/".join(str(one.levels[name]) for name in names) for one in (cell, reference))
    return " against ".join(arms)


def place(cell: Cell, pool: list[Host], sweep: int) -> list[Host]:
    """All cells with one pool on the same hosts in a round, so that arms are paired there."""
    first = (sweep - 1) % len(pool)
    return [*pool[first:], *pool[:first]][: topology.hosts(cell)]


def said(cell: Cell) -> str:
    """What decides whether hosts can be had for a cell, for people."""
    hosts = topology.hosts(cell)
    several = f" with {hosts} {_who(cell)}s" if hosts > 1 else ""
    return f"{cell.platform.runtime} on {cell.platform.substrate}{several}"
