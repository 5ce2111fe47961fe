"""What runs inside the workload image: `python -m workloads NAME --config FILE --out DIR`.

A workload is one module or package in this folder, found by its name; a leading underscore
marks what they share. Each gives

    Options              a dataclass on `workloads._options.Options`: what can be set
    COMMON               the names of the options that matter most
    METRICS              every scalar that it writes (`workloads._declare.Metric`), the most
                         telling first
    ITEMS                the unit of what a step works on, such as images; None without steps
    TOPOLOGY             which members a trial can have: ONE, WORKERS_AND_SERVERS, WORKERS,
                         CLIENT_AND_SERVER
    PORTS                where its members listen (`workloads._declare.Port`), if they are several;
                         `context.peers` says where each is, or `context.place` to those that train
    FAMILY               the image that it is in: a file in requirements/images; of one that has the
                         option `framework` the image is that of its level
    WRITABLE             whether it needs space to write to beside OUT and a small /tmp: a folder of
                         the trial's own, `context.scratch`; `workloads._storage` has an option
                         for where that is
    MEMORY               bytes that a member needs at least
    BACKGROUND           False where it runs to its own end, and cannot go on until it is told to;
                         all others leave it out
    estimate(o, cores)   seconds a trial may take, rough and pessimistic
    run(o, context)      the work itself; only this one may import more than the standard library

Nothing here imports TensorFlow until `run`, so a controller without it can check an experiment.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Protocol, cast

from workloads._declare import Metric, Port, Topology, check
from workloads._options import BadInputError, nearest
from workloads._options import Options as _Options
from workloads._output import Context

NAMES: tuple[str, ...] = tuple(
    sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
)


class Workload(Protocol):
    """What a workload's module gives."""

    Options: type[_Options]
    COMMON: tuple[str, ...]
    METRICS: tuple[Metric, ...]
    ITEMS: str | None
    TOPOLOGY: Topology
    PORTS: tuple[Port, ...]
    FAMILY: str
    WRITABLE: bool
    MEMORY: int
    estimate: Callable[[Any, float], float]
    run: Callable[[Any, Context], None]


def workload(name: str) -> Workload:
    """The module of a workload; imports the standard library only.

    Raises BadInputError for an unknown name, DeclarationError for an incomplete declaration.
    """
    if name not in NAMES:
        raise BadInputError(
            f"workload: must be one of {', '.join(NAMES)}{nearest(name, NAMES)}; given: {name!r}"
        )
    found = importlib.import_module(f"workloads.{name}")
    check(name, found)
    return cast(Workload, found)


def options(name: str) -> type[_Options]:
    """The options dataclass of a workload; `options(name).parse({...})` checks a mapping."""
    return workload(name).Options


def can_be_background(name: str) -> bool:
    """Whether it goes on until it is told to end, where it is to run beside a trial."""
    return bool(getattr(workload(name), "BACKGROUND", True))


def estimate(name: str, chosen: _Options, cores: float) -> float:
    """Seconds that a trial may take on that many cores: rough, pessimistic."""
    return workload(name).estimate(chosen, cores)
