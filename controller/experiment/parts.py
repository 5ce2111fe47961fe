"""What is made of an experiment: one for each of its workloads, and a slice of it."""

from __future__ import annotations

from typing import Any

from strata.errors import Refused, nearest

import workloads

from .model import Experiment, Own, Slice, option_names


def parts(experiment: Experiment) -> list[Experiment]:
    """An experiment for each of its workloads: what is the workload's own, over what is common."""
    if not experiment.workloads:
        return [experiment]
    return [
        experiment.model_copy(
            update={
                **{"workload": name, "workloads": {}, "exclude": _rules(experiment, name)},
                **_over(experiment, own).model_dump(),
            }
        )
        for name, own in experiment.workloads.items()
    ]


def _rules(experiment: Experiment, workload: str) -> list[dict[str, Any]]:
    """The rules of `exclude` for a workload: not one that names what another alone has."""
    others = (set(option_names(name)) for name in experiment.workloads if name in workloads.NAMES)
    own = option_names(workload) if workload in workloads.NAMES else []
    foreign = set[str]().union(*others) - set(own)
    return [rule for rule in experiment.exclude if not foreign & set(rule)]


def _over(common: Experiment | Own, own: Own) -> Own:
    """Factors and options of both, of which `own` has the say in what it names."""
    moved = set(own.factors) | set(own.options)
    factors = {k: v for k, v in common.factors.items() if k not in moved} | own.factors
    options = {k: v for k, v in common.options.items() if k not in moved} | own.options
    return Own(factors=factors, options=options)


def sliced(experiment: Experiment, name: str) -> Experiment:
    """The slice of that name. Raises Refused."""
    if name not in experiment.slices:
        raise Refused(
            f"{experiment.name}: there is no slice {name!r}",
            given=name,
            then=nearest(name, list(experiment.slices)),
        )
    part = experiment.slices[name]
    for workload in part.workloads:
        if workload not in experiment.workloads:
            raise Refused(
                f"a slice changes workloads that {experiment.name} has",
                given=f"slices.{name}.workloads.{workload}",
                then=nearest(workload, list(experiment.workloads)),
            )
    repeats = part.repeats or experiment.repeats
    own = {
        workload: _over(each, part.workloads.get(workload, Own()))
        for workload, each in experiment.workloads.items()
    }
    return experiment.model_copy(
        update={
            **_over(experiment, part).model_dump(),
            "workloads": own,
            "backgrounds": {**experiment.backgrounds, **part.backgrounds},
            "exclude": [*experiment.exclude, *part.exclude],
            "repeats": repeats,
            "rebuilds": min(experiment.rebuilds, repeats),
            "disturbed": experiment.disturbed if part.disturbed is None else part.disturbed,
            "description": f"{experiment.description} {_said_of(name, part)}".strip(),
            "demonstration": experiment.demonstration or part.demonstration,
        }
    )


def _said_of(name: str, part: Slice) -> str:
    """What a slice changes, for the page: it must not be taken for the whole."""
    changed = [*part.factors.items(), *part.options.items()]
    for own in part.workloads.values():
        changed += [*own.factors.items(), *own.options.items()]
    stated = ", ".join(dict.fromkeys(f"{key} {_listed(value)}" for key, value in changed))
    without = "; ".join(
        " and ".join(f"{key} {_listed(value)}" for key, value in rule.items())
        for rule in part.exclude
    )
    also = f", without {without}" if without else ""
    return f"This run is the slice {name!r} of it, with {stated or 'fewer repeats'}{also}."


def _listed(value: Any) -> str:
    return " / ".join(map(str, value)) if isinstance(value, list) else str(value)
