"""What runs inside the workload image: `python -m workloads NAME --config FILE --out DIR`.

A workload is one module or package in this folder, found by its name; a leading underscore
marks what they share. Each gives

    Options              a dataclass on `workloads._options.Options`: what can be set
    COMMON               the names of the options that matter most
    estimate(o, cores)   seconds a trial may take, rough and pessimistic
    run(o, context)      the work itself; only this one may import more than the standard library
    DISTRIBUTED          optional, True: several of it can work together, as context.place says

Nothing here imports TensorFlow until `run`, so a controller without it can check an experiment.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Protocol, cast

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
    estimate: Callable[[Any, float], float]
    run: Callable[[Any, Context], None]


def workload(name: str) -> Workload:
    """The module of a workload; imports the standard library only."""
    if name not in NAMES:
        raise BadInputError(
            f"workload: must be one of {', '.join(NAMES)}{nearest(name, NAMES)}; given: {name!r}"
        )
    return cast(Workload, importlib.import_module(f"workloads.{name}"))


def options(name: str) -> type[_Options]:
    """The options dataclass of a workload; `options(name).parse({...})` checks a mapping."""
    return workload(name).Options


def estimate(name: str, chosen: _Options, cores: float) -> float:
    """Seconds that a trial may take on that many cores: rough, pessimistic."""
    return workload(name).estimate(chosen, cores)
