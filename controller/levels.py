"""The factors that every cell has beside the options of its workload, in one table.

A factor has a rule for its levels, an example, and a function that reads a level as a person
wrote it and gives the one that stands in plan and record. What a level needs of a host is here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from strata import runtimes, units
from strata.cell import Level, Resources
from strata.errors import Refused, nearest
from strata.members import DISTRIBUTIONS, MOST_PORTS, PLACEMENTS
from strata.networks import NETWORKS

SUBSTRATES = ("bare_metal", "vm")
MOST_NODES = 1024  # NUMA nodes, MAX_NUMNODES
LEAST_MEMORY = 6 * 2**20  # Docker's
LEAST_QUOTA = 0.01  # the kernel's, with Docker's period
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,63}")
A_NAME = "a name of at most 64 letters, digits, spaces and ._+-"


class Host(Protocol):
    """What a host has, as far as a level may need it; None before the host was asked."""

    @property
    def cpus(self) -> frozenset[int] | None: ...
    @property
    def nodes(self) -> frozenset[int] | None: ...
    @property
    def gpus(self) -> frozenset[str] | None: ...
    @property
    def memory_total(self) -> int | None:
        """Bytes."""


@dataclass(frozen=True)
class Factor:
    """A built-in factor. `read` raises ValueError for a level that breaks the rule.

    `lacks` says what of a level a host that was asked does not have, or ''.
    """

    name: str
    rule: str
    example: str
    read: Callable[[Any], Level]
    lacks: Callable[[Any, Host], str] | None = None
    known: Sequence[str] = ()  # all levels, where they can be listed


def _one_of(name: str, known: Sequence[str]) -> Factor:
    def read(level: Any) -> Level:
        if level not in known:
            raise ValueError(level)
        return str(level)

    return Factor(name, f"one of {', '.join(known)}", f"{name}: [{known[0]}]", read, known=known)


def _optional(read: Callable[[Any], Level]) -> Callable[[Any], Level]:
    """Of a resource: null is no limit."""
    return lambda level: None if level is None else read(level)


def _number(level: Any, kinds: type | tuple[type, ...], least: float, most: float) -> Any:
    right = isinstance(level, kinds) and not isinstance(level, bool)
    if not right or not least <= level <= most:
        raise ValueError(level)
    return level


def _text(level: Any) -> str:
    if not isinstance(level, str) or not NAME.fullmatch(level):
        raise ValueError(level)
    return level


def _count(name: str) -> Factor:
    rule = f"a whole number, more than 0 and at most {MOST_PORTS}: each has a port"
    return Factor(name, rule, f"{name}: [1, 2]", lambda n: _number(n, int, 1, MOST_PORTS))


def _cpus(level: Any) -> str:
    if not isinstance(level, str):
        raise ValueError(level)
    units.cpu_set(level)
    return level


def _memory(level: Any) -> int:
    if isinstance(level, bool) or not isinstance(level, str | int):
        raise ValueError(level)
    return int(_number(units.size(level), int, LEAST_MEMORY, 2**60))


def _gpus(level: Any) -> list[str]:
    ids = level if isinstance(level, list) else []
    form = re.compile(r"\d{1,4}|(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}")
    right = all(isinstance(one, str) and form.fullmatch(one) for one in ids)
    if not ids or not right or len(set(ids)) < len(ids):
        raise ValueError(level)
    return list(ids)


def _lacks_cpus(level: str, host: Host) -> str:
    if host.cpus is None or units.cpu_set(level) <= host.cpus:
        return ""
    return f"CPU {ranges(units.cpu_set(level) - host.cpus)}, of {ranges(host.cpus)}"


def _lacks_quota(level: float, host: Host) -> str:
    if host.cpus is None or level <= len(host.cpus):
        return ""
    return f"{level:g} CPUs, of {len(host.cpus)}"


def _lacks_node(level: int, host: Host) -> str:
    if host.nodes is None or level in host.nodes:
        return ""
    return f"NUMA node {level}, of {ranges(host.nodes)}"


def _lacks_gpus(level: list[str], host: Host) -> str:
    if host.gpus is None:
        return ""
    missing = ", ".join(one for one in level if one not in host.gpus)
    return f"GPU {missing}, of {', '.join(sorted(host.gpus)) or 'none'}" if missing else ""


def _lacks_memory(level: int, host: Host) -> str:
    if host.memory_total is None or level <= host.memory_total:
        return ""
    return f"{units.bytes_text(level)} of memory, of {units.bytes_text(host.memory_total)}"


def ranges(numbers: Collection[int]) -> str:
    """Numbers as a set is written: `0-3,8`; `none` for an empty one."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts) or "none"


# Every built-in factor, in the order of a cell's levels.
_TABLE = (
    _one_of("substrate", SUBSTRATES),
    _one_of("runtime", tuple(runtimes.known())),
    _one_of("network", tuple(NETWORKS)),
    # It changes nothing: it names two arms of one platform, for an A/A comparison.
    Factor(
        "label",
        f"{A_NAME}, and in quotes where YAML would read a number or a truth",
        'label: [first, again, "no"]',
        _text,
    ),
    Factor("cpus", "a CPU set in quotes", 'cpus: ["0-3"]', _optional(_cpus), _lacks_cpus),
    Factor(
        "memory",
        "a whole number of bytes or a size with K, M, G or T, from 6M up",
        "memory: [8G]",
        _optional(_memory),
        _lacks_memory,
    ),
    Factor(
        "numa",
        "the number of a NUMA node",
        "numa: [0]",
        _optional(lambda level: _number(level, int, 0, MOST_NODES - 1)),
        _lacks_node,
    ),
    Factor(
        "gpus",
        "a list of GPUs, each once, by number or UUID in quotes",
        'factors: {gpus: [["0"]]}, or options: {gpus: ["0"]}',
        _optional(_gpus),
        _lacks_gpus,
    ),
    Factor(
        "quota",
        "a number of CPUs, more than 0 (at least 0.01)",
        "quota: [1.5]",
        _optional(lambda level: _number(level, (int, float), LEAST_QUOTA, units.MOST_CPUS)),
        _lacks_quota,
    ),
    _one_of("distribution", DISTRIBUTIONS),
    _count("workers"),
    _count("servers"),
    _one_of("placement", PLACEMENTS),
    Factor("beside", f"{A_NAME}, of a background", "beside: [null, neighbour]", _optional(_text)),
)
FACTORS = {factor.name: factor for factor in _TABLE}


def read(name: str, level: Any, where: str = "") -> Level:
    """A level of the built-in factor `name` as plan and record have it. Raises Refused."""
    factor = FACTORS[name]
    try:
        return factor.read(level)
    except ValueError:
        if factor.known:
            rule, then = f"unknown level {level!r} of {name!r}", nearest(str(level), factor.known)
        else:
            rule, then = f"{name!r} must be {factor.rule}", ""
        given = f"{where or name}: {level!r}"[:200]
        raise Refused(rule, example=factor.example, given=given, then=then) from None


def lacking(given: Resources, host: Host) -> str:
    """What a host does not have of the resources that a cell is given, or ''."""
    stated = {name: level for name, level in asdict(given).items() if level is not None}
    asked = ((FACTORS[name].lacks, level) for name, level in stated.items())
    return "; ".join(filter(None, (lacks(level, host) for lacks, level in asked if lacks)))
