"""What the shape of an experiment alone cannot say: names, levels and what they mean together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from strata import units
from strata.cell import Level, Levels
from strata.errors import Refused, nearest

import workloads
from workloads._declare import DeclarationError

from .canonical import canonical
from .model import Experiment, Generate
from .parts import parts


def check(experiment: Experiment) -> None:
    """Raises Refused: what the shape alone cannot say."""
    _check_one_or_several(experiment)
    for part in parts(experiment):
        _check_workload(part.workload)
        _check_names(part)
        _check_backgrounds(part)
        _check_baseline(canonical(part))
        _check_topology(canonical(part))
    _check_dataset(experiment)
    _check_rebuilds(experiment)
    units.seconds(experiment.time_limit)
    units.seconds(experiment.time_budget)
    units.size(experiment.disk_budget)
    if experiment.disturbed:
        units.seconds(experiment.disturbed.rest)


def _check_rebuilds(experiment: Experiment) -> None:
    """Raises Refused where a rebuild would have nothing to measure, or the run not get to it."""
    if experiment.rebuilds > experiment.repeats:
        raise Refused(
            "each rebuild of the testbed has at least one of the repeats",
            example=f"repeats: {2 * experiment.rebuilds}",
            given=f"rebuilds: {experiment.rebuilds}, repeats: {experiment.repeats}",
        )
    if experiment.rebuilds > 1 and experiment.stop:
        raise Refused(
            "a run over several rebuilds has no stop: all of them are measured alike often",
            example="rebuilds: 1",
            given=f"rebuilds: {experiment.rebuilds}, and stop",
        )


def _check_one_or_several(experiment: Experiment) -> None:
    """Raises Refused unless there is one workload, or several with names of their own."""
    if bool(experiment.workload) == bool(experiment.workloads):
        raise Refused(
            f"{experiment.name} has a workload, or several in `workloads`",
            example="workload: iperf3, or workloads: {iperf3: {}, request_response: {}}",
            given="both" if experiment.workload else "neither",
        )
    if experiment.workloads and experiment.stop:
        raise Refused(
            "stop is a rule for one workload, whose metric it names",
            example="workload: iperf3",
            given=f"workloads: {', '.join(experiment.workloads)}",
        )
    for name, own in experiment.workloads.items():
        if "label" in {*own.factors, *own.options}:
            raise Refused(
                "labels are those of the whole experiment",
                example="factors: {label: [first, again]}",
                given=f"workloads.{name}: label",
            )


def _check_workload(name: str, whose: str = "") -> None:
    if name not in workloads.NAMES:
        raise Refused(
            f"unknown workload {name!r}{whose}",
            example="workload: tf_image_classification",
            given=name,
            then=nearest(name, list(workloads.NAMES)),
        )
    _declared(name)


def _declared(name: str) -> workloads.Workload:
    """What a workload declares. Raises Refused where that cannot be used."""
    try:
        return workloads.workload(name)
    except DeclarationError as error:
        raise Refused(
            "a workload declares all that workloads/__init__.py lists, without contradiction",
            given=str(error),
            then=f"put it right in workloads/{name}",
        ) from error


def resolve_options(workload: str, chosen: Levels) -> Levels:
    """All options of `workload` with `chosen` over the defaults. Raises Refused."""
    try:
        options = _declared(workload).Options.parse(chosen)
    except ValueError as error:
        raise Refused(f"option of {workload}: {error}") from error
    return dataclasses.asdict(options)


def _check_names(experiment: Experiment) -> None:
    known = experiment.known()
    for kind, name in _stated(experiment):
        if name not in known:
            raise Refused(f"unknown {kind} {name!r}", given=name, then=nearest(name, known))
    for name in set(experiment.factors) & set(experiment.options):
        raise Refused(
            f"{name!r} is both a factor and an option; state it once",
            given=f"factors.{name} and options.{name}",
        )


def _stated(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """What each name is stated as, and the name."""
    yield from (("factor", name) for name in experiment.factors)
    yield from (("option", name) for name in experiment.options)
    yield from (("factor in exclude", name) for rule in experiment.exclude for name in rule)
    yield from (("factor in baseline", name) for name in experiment.baseline)
    yield from (
        ("factor in stop", name) for name in (experiment.stop.of if experiment.stop else ())
    )


def _check_baseline(experiment: Experiment) -> None:
    for name, level in experiment.baseline.items():
        given = experiment.factors.get(name)
        if given is not None and level not in given:
            raise Refused(
                f"the baseline's level of {name!r} is not one of the factor's levels",
                example=f"baseline: {{{name}: {given[0]}}}",
                given=repr(level),
                then=nearest(str(level), map(str, given)),
            )


def _stated_levels(experiment: Experiment, name: str) -> list[Level]:
    """Every level that the experiment states for a factor or an option."""
    stated = [experiment.options[name]] if name in experiment.options else []
    return [*experiment.factors.get(name, []), *stated]


def _check_backgrounds(experiment: Experiment) -> None:
    """They are sound, and those that `beside` names are declared."""
    for job in experiment.backgrounds.values():
        _check_workload(job.workload, " of a background")
        if not workloads.workload(job.workload).TOPOLOGY.alone:
            raise Refused(
                "a background job has one member",
                example="backgrounds: {neighbour: {workload: tf_image_classification}}",
                given=f"{job.workload}: {workloads.workload(job.workload).TOPOLOGY.name}",
            )
        if not workloads.can_be_background(job.workload):
            raise Refused(
                "a background job goes on until it is told to end",
                example="backgrounds: {neighbour: {workload: spin}}",
                given=f"{job.workload}, which runs to its own end",
            )
        resolve_options(job.workload, job.options)
    names = list(experiment.backgrounds)
    for level in _stated_levels(experiment, "beside"):
        if level is not None and level not in names:
            raise Refused(
                f"unknown background {level!r}",
                example="backgrounds: {neighbour: {}} and factors: {beside: [null, neighbour]}",
                given=f"beside: {level}",
                then=nearest(str(level), names) if names else "declare it under backgrounds",
            )


def _check_topology(experiment: Experiment) -> None:
    """What is stated of the members is what the workload's topology can have."""
    topology = workloads.workload(experiment.workload).TOPOLOGY
    able = [n for n in workloads.NAMES if workloads.workload(n).TOPOLOGY.shares]
    for level in _stated_levels(experiment, "distribution"):
        if level not in topology.distributions:
            one = f"distribution: {topology.distributions[0]}"
            raise Refused(
                f"{experiment.workload} cannot be distributed" + " so" * topology.shares,
                example=one if topology.shares else f"workload: {able[0]}",
                given=f"distribution: {level}",
            )
    if topology.alone:
        return
    if "together" in _stated_levels(experiment, "placement") and not topology.shares:
        raise Refused(
            f"{experiment.workload} has a program for each member",
            example="placement: [spread, packed]",
            given="placement: together",
        )
    for name, role in zip(("workers", "servers"), topology.roles, strict=False):
        for level in _stated_levels(experiment, name):
            if not role.least <= int(level) <= (role.most or int(level)):  # type: ignore[arg-type]
                raise Refused(
                    f"{experiment.workload} has at least {role.least} and at most "
                    f"{role.most or 'any number'} as {role.name}",
                    example=f"{name}: {role.least}",
                    given=f"{name}: {level}",
                )


def _check_dataset(experiment: Experiment) -> None:
    asked = experiment.dataset
    if asked is None:
        return
    if (asked.path is None) == (asked.generate is None):
        raise Refused(
            "a dataset has a path, or is to be generated",
            example="dataset: {name: made, generate: {images: 1024}}",
            given=f"a dataset {asked.name!r} with {'neither' if asked.path is None else 'both'}",
        )
    if asked.generate is not None:
        _check_generator(asked.generate)


def _check_generator(generate: Generate) -> None:
    makers = [name for name in workloads.NAMES if name.startswith("make_")]
    if generate.workload not in makers:
        raise Refused(
            f"no workload {generate.workload!r} makes datasets",
            example=f"generate: {{workload: {makers[0]}}}",
            given=generate.workload,
            then=nearest(generate.workload, makers),
        )
    resolve_options(generate.workload, generate.options)
