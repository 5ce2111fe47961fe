"""What a workload declares of itself, so that nothing else needs to know its name.

`workloads/__init__.py` says which of these each workload gives. Standard library only: the
controller reads the declarations without what the workload itself imports.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Better = Literal["higher", "lower", ""]
# How the value of a trial of several members follows from those of the metric's role, which is the
# first one of the topology (worker, client) unless it is declared:
#   chief       it is that of the first member of the role
#   max … sum   it is computed over the members of the role that have it
#   total       it is the sum over all members, whatever their role
#   throughput  it grows as the throughput does, which is the items of all workers over the time
#               from the first begin of their measured windows to the last end
Combine = Literal["chief", "max", "mean", "median", "sum", "total", "throughput"]
Protocol = Literal["tcp", "udp"]

PARTS = (
    *("Options", "COMMON", "ITEMS", "METRICS", "TOPOLOGY", "PORTS", "FAMILY", "WRITABLE"),
    *("MEMORY", "estimate", "run"),
)
NAME = re.compile(r"[a-z][a-z0-9_]*")
# What every trial is described by, whatever its workload (`strata.cell.NAMES`): an option that has
# one of these names would be taken for it, and never reach the workload.
BUILT_IN = (
    *("substrate", "runtime", "network", "label", "workload"),
    *("cpus", "memory", "numa", "gpus", "quota"),
    *("distribution", "workers", "servers", "placement", "beside"),
)


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
    role: str = ""  # whose it is; empty: of the first role of the topology

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
    the chief: its clock counts.

    The factor `workers` is the number of members of the first role, `servers` that of the second.
    """

    name: str
    roles: tuple[Role, ...]
    # Of a trial that is spread; members go to them in turn. None: one for each member of the first
    # role, and those of every role begin with the first host.
    hosts: int | None = 1
    # How its workers share their gradients, as the factor `distribution` says; the first one is
    # that of an experiment that does not say it.
    distributions: tuple[str, ...] = ("none",)

    def __post_init__(self) -> None:
        """Refuses what no experiment could count."""
        if len(self.roles) not in (1, 2):
            raise DeclarationError(
                f"topology {self.name}: the factors `workers` and `servers` count one role or two; "
                f"given: {len(self.roles)}"
            )

    @property
    def shares(self) -> bool:
        """Whether its workers can share gradients."""
        return self.distributions != ("none",)

    @property
    def several(self) -> bool:
        """Whether a trial can have more than one member."""
        return any(role.most != 1 for role in self.roles) or len(self.roles) > 1

    @property
    def alone(self) -> bool:
        """Whether a trial can have one member only."""
        return sum(role.least for role in self.roles) == 1


ONE = Topology("one", (Role("worker"),))
WORKERS_AND_SERVERS = Topology(
    "workers and servers",
    (Role("worker", 1, None), Role("server", 0, None)),
    hosts=None,
    distributions=("none", "ring", "ps_async", "ps_sync"),
)
WORKERS = Topology("workers", (Role("worker", 2, None),), hosts=None, distributions=("ring",))
CLIENT_AND_SERVER = Topology("client and server", (Role("client"), Role("server")), hosts=2)


@dataclass(frozen=True)
class Port:
    """Where members listen while a trial runs. Strata chooses the number and tells it.

    The ports of each protocol are counted by themselves, so that a program that wants one number
    for both gets it by declaring one port of each.
    """

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
    taken = options & set(BUILT_IN)
    if taken:
        raise DeclarationError(
            f"{where}: an option must have another name than what every trial is described by; "
            f"given: {', '.join(sorted(taken))}"
        )
    unknown = set(declared.COMMON) - options
    if unknown:
        raise DeclarationError(f"{where}: COMMON names no options: {', '.join(sorted(unknown))}")
    if bool(declared.PORTS) != declared.TOPOLOGY.several:
        raise DeclarationError(
            f"{where}: members that are several need PORTS, and one alone needs none; given: "
            f"{declared.TOPOLOGY.name}, {len(declared.PORTS)} ports"
        )
    if declared.TOPOLOGY.shares and len(declared.PORTS) != 1:
        raise DeclarationError(f"{where}: members that share gradients have one port each")
    roles = {role.name for role in declared.TOPOLOGY.roles}
    for port in declared.PORTS:
        if not port.roles or not set(port.roles) <= roles:
            raise DeclarationError(
                f"{where}: port {port.name}: its roles must be of {sorted(roles)}; "
                f"given: {list(port.roles)}"
            )
    if len({port.name for port in declared.PORTS}) < len(declared.PORTS):
        raise DeclarationError(f"{where}: every port must have a name of its own")
    for metric in declared.METRICS:
        if metric.role and metric.role not in roles:
            raise DeclarationError(
                f"{where}: metric {metric.name}: its role must be of {sorted(roles)}; "
                f"given: {metric.role}"
            )
