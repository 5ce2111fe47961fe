"""What a workload declares of itself, so that nothing else needs to know its name.

`workloads/__init__.py` says which of these each workload gives. Standard library only: the
controller reads the declarations without what the workload itself imports.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Better = Literal["higher", "lower", ""]
# How the value of a trial of several members follows from theirs:
#   chief       it is that of the first worker
#   max … sum   it is computed over the workers that have it
#   total       it is the sum over all members, parameter servers too
#   throughput  it grows as the throughput does, which is the items of all workers over the time
#               from the first begin of their measured windows to the last end
Combine = Literal["chief", "max", "mean", "median", "sum", "total", "throughput"]
Protocol = Literal["tcp", "udp"]

PARTS = (
    *("Options", "COMMON", "ITEMS", "METRICS", "TOPOLOGY", "PORTS", "FAMILY", "WRITABLE"),
    *("MEMORY", "estimate", "run"),
)
NAME = re.compile(r"[a-z][a-z0-9_]*")


class DeclarationError(Exception):
    """What a workload declares is incomplete, or contradicts itself; the message says where."""


@dataclass(frozen=True)
class Metric:
    """A number that trials are described by, or compared by where one direction is better."""

    name: str
    label: str
    unit: str  # 1 for a number without one
    better: Better = ""  # empty: it describes a trial, and is compared with nothing
    headline: bool = False  # a run is summed up by it; the first one comes first
    combine: Combine = "chief"

    def __post_init__(self) -> None:
        """Refuses what the page could not show."""
        if not NAME.fullmatch(self.name) or not self.label or not self.unit:
            raise DeclarationError(
                f"a metric needs a name of small letters, digits and underscores, a label and a "
                f"unit (example: Metric('run_time', 'Run time', 's', 'lower')); given: {self}"
            )
        if self.better not in get_args(Better) or self.combine not in get_args(Combine):
            raise DeclarationError(
                f"metric {self.name}: better must be one of {get_args(Better)} and combine one of "
                f"{get_args(Combine)}; given: {self.better!r}, {self.combine!r}"
            )
        if self.headline and not self.better:
            raise DeclarationError(f"metric {self.name}: a headline needs a better direction")


@dataclass(frozen=True)
class Role:
    """Members of one kind."""

    name: str
    least: int = 1
    most: int | None = 1  # None: as many as the experiment asks for


@dataclass(frozen=True)
class Topology:
    """Which members a trial has, and on how many hosts. The first member of the first role is
    the chief: its clock counts."""

    name: str
    roles: tuple[Role, ...]
    hosts: int | None = 1  # at most; None: up to one for each member

    @property
    def distributed(self) -> bool:
        """Whether a trial can have more than one member."""
        return any(role.most is None for role in self.roles) or len(self.roles) > 1


ONE = Topology("one", (Role("worker"),))
WORKERS_AND_SERVERS = Topology(
    "workers and servers", (Role("worker", 1, None), Role("server", 0, None)), hosts=None
)
CLIENT_AND_SERVER = Topology("client and server", (Role("client"), Role("server")), hosts=2)


@dataclass(frozen=True)
class Port:
    """Where members listen while a trial runs. Strata chooses the number and tells it."""

    name: str
    protocol: Protocol
    roles: tuple[str, ...]  # of the members that listen


def check_names(where: str, metrics: Iterable[Metric]) -> None:
    """Raises DeclarationError at a metric that is declared twice."""
    names = [metric.name for metric in metrics]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise DeclarationError(f"{where}: metrics are declared twice: {', '.join(sorted(twice))}")


def check(where: str, declared: Any) -> None:
    """Raises DeclarationError where a workload's module lacks a part of the contract, or its
    parts contradict each other."""
    lacking = [name for name in PARTS if not hasattr(declared, name)]
    if lacking:
        raise DeclarationError(f"{where}: {', '.join(lacking)} must be declared")
    check_names(where, declared.METRICS)
    options = {field.name for field in fields(declared.Options)}
    both = options & {metric.name for metric in declared.METRICS}
    if both:
        raise DeclarationError(f"{where}: both a metric and an option: {', '.join(sorted(both))}")
    unknown = set(declared.COMMON) - options
    if unknown:
        raise DeclarationError(f"{where}: COMMON names no options: {', '.join(sorted(unknown))}")
    if bool(declared.PORTS) != declared.TOPOLOGY.distributed:
        raise DeclarationError(
            f"{where}: members that are several need PORTS, and one alone needs none; given: "
            f"{declared.TOPOLOGY.name}, {len(declared.PORTS)} ports"
        )
    roles = {role.name for role in declared.TOPOLOGY.roles}
    for port in declared.PORTS:
        if not port.roles or not set(port.roles) <= roles:
            raise DeclarationError(
                f"{where}: port {port.name}: its roles must be of {sorted(roles)}; "
                f"given: {list(port.roles)}"
            )
