"""Each level as plan and record have it."""

from __future__ import annotations

from strata.cell import Level, Levels
from strata.errors import Refused

import workloads

from .. import levels
from ..levels import FACTORS
from .model import Experiment


def canonical(experiment: Experiment) -> Experiment:
    """The experiment of one workload with each level as plan and record have it. Raises Refused.

    `8G` of memory is a number of bytes there, for instance.
    """
    workload = experiment.workload
    return experiment.model_copy(
        update={
            "factors": {
                name: _each_once(name, [_level(workload, name, level) for level in given])
                for name, given in experiment.factors.items()
            },
            "options": _levels(workload, experiment.options, "options"),
            "backgrounds": {
                name: job.model_copy(update=_levels(job.workload, job.resources, name))
                for name, job in experiment.backgrounds.items()
            },
            "exclude": [
                {
                    name: [_level(workload, name, level, "exclude") for level in given]
                    for name, given in rule.items()
                }
                for rule in experiment.excluded
            ],
            "baseline": _levels(workload, experiment.baseline, "baseline"),
            "stop": experiment.stop
            and experiment.stop.model_copy(
                update={"of": _levels(workload, experiment.stop.of, "stop.of")}
            ),
        }
    )


def _levels(workload: str, given: Levels, where: str) -> Levels:
    return {name: _level(workload, name, level, where) for name, level in given.items()}


def _level(workload: str, name: str, level: Level, where: str = "factors") -> Level:
    """One level as it is recorded. Raises Refused when it is not of its type."""
    if name in FACTORS:
        return levels.read(name, level, f"{where}.{name}")
    try:
        workloads.options(workload).check({name: level})
    except ValueError as error:
        raise Refused(f"option of {workload}: {error}", given=f"{where}.{name}") from error
    return level


def _each_once(name: str, given: list[Level]) -> list[Level]:
    """Raises Refused when there is none, or two mean the same."""
    number = (int, float)
    keys = {repr(float(v) if type(v) in number else v) for v in given}  # type: ignore[arg-type]
    if not given or len(keys) != len(given):
        raise Refused(
            f"factor {name!r} needs at least one level, each once",
            example="model: [resnet50, alexnet]",
            given=f"{name}: {given}"[:200],
        )
    return given
