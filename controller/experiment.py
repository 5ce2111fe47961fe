"""An experiment: one YAML, read, checked, and refused in plain words.

Runs on the controller only (pydantic, PyYAML).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import PydanticCustomError
from strata import units
from strata.cell import PLATFORM, Level, Levels
from strata.errors import Refused, nearest
from strata.identity import digest

import workloads
from workloads._declare import DeclarationError

from . import blocks, levels, strict_yaml
from .levels import FACTORS

__all__ = ["PLATFORM", "Experiment", "load", "parts", "resolve_options"]

# What becomes a part of a file's name; with what is added to it, it must fit into 255 bytes.
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=64)]
Line = Annotated[str, Field(pattern=r"^[^\n]+$", max_length=200)]


class Closed(BaseModel):
    """A mapping in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Generate(BaseModel):
    """A dataset to be generated: a workload that makes one, and its options."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    workload: str = "make_images"

    @property
    def options(self) -> Levels:
        return dict(self.model_extra or {})


class Dataset(Closed):
    """Real data: a folder on the controller, or one to be generated."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
    path: Annotated[str, Field(min_length=1)] | None = None
    generate: Generate | None = None


class Background(Closed):
    """A job that runs beside a trial: by default the neighbour of CLOSER 2018."""

    workload: str = "tf_image_classification"
    options: Levels = {"model": "alexnet", "batch_size": 512}
    cpus: Level = None
    quota: Level = None
    memory: Level = None

    @property
    def resources(self) -> Levels:
        return {"cpus": self.cpus, "quota": self.quota, "memory": self.memory}


Share = Annotated[float, Field(ge=0, le=1)]


class Disturbed(Closed):
    """When a trial is void because of what else its hosts did, and what is done about that.

    By cause the largest share of the measured window that is let pass; null: it decides nothing.
    The trial itself may be behind those that are null here: by default it is not judged by them.
    """

    others: Share | None = 0.1
    steal: Share | None = 0.1
    swap: Share | None = None
    pressure_cpu: Share | None = None
    pressure_memory: Share | None = None
    pressure_io: Share | None = None
    frequency: Share | None = None
    traffic: Share | None = None
    again: Annotated[int, Field(ge=0, le=10)] = 2  # how often a pair is run again at most
    rest: str | int = "30s"  # how long hosts may take to come to rest before the first trial
    warm_up: bool = True  # whether a slot that is not measured comes first on each host


class Stop(Closed):
    """When a run ends before all of its repeats: as soon as one comparison is known so narrowly."""

    of: Annotated[Levels, Field(min_length=1)]  # levels of the arm that is compared
    within: Annotated[float, Field(gt=0, lt=1)]  # half of the interval, as a share of the ratio
    metric: str = ""  # the first headline of the workload unless it is stated


def _visits(given: Any) -> blocks.Visits:
    if given != blocks.BALANCED and (type(given) is not int or given < 1):
        raise PydanticCustomError("visits", "it is a number from 1, or balanced")
    return given  # type: ignore[no-any-return]


Visits = Annotated[blocks.Visits, PlainValidator(_visits)]


class Own(Closed):
    """What one of several workloads has beside what all of them have, or in its place."""

    factors: dict[str, list[Level]] = {}
    options: Levels = {}


class Slice(Own):
    """A named part of an experiment; what it states replaces the experiment's own."""

    workloads: dict[str, Own] = {}
    backgrounds: dict[Name, Background] = {}
    repeats: Annotated[int, Field(ge=1)] | None = None
    disturbed: Disturbed | Literal[False] | None = None
    demonstration: bool = True  # whether it is too small to base a decision on


class Experiment(Closed):
    """What is asked. Everything that is not stated has the default of its owner."""

    name: Name
    title: Line
    description: str = ""
    demonstration: bool = False
    workload: str = ""
    workloads: dict[str, Own] = {}  # several, in the place of one
    factors: dict[str, list[Level]]
    options: Levels = {}
    backgrounds: dict[Name, Background] = {}
    exclude: list[dict[str, Level | list[Level]]] = []
    baseline: Levels
    control: bool = True
    design: Literal["pairs", "duet"] = "pairs"
    repeats: Annotated[int, Field(ge=1)]
    visits: Visits = blocks.VISITS
    rebuilds: Annotated[int, Field(ge=1)] = 1  # how often the testbed is built
    seed: int = 1
    time_limit: str | int = "15m"
    time_budget: str | int = "12h"
    disk_budget: str | int = "20G"
    disturbed: Disturbed | Literal[False] = Disturbed()
    stop: Stop | None = None
    dataset: Dataset | None = None
    slices: dict[Name, Slice] = {}

    @property
    def identity(self) -> str:
        """A digest over all that decides which trials run."""
        return digest(self.model_dump(exclude={"title", "description", "slices"}))

    @property
    def excluded(self) -> list[dict[str, list[Level]]]:
        """The rules of `exclude`, each name with the list of its levels."""
        return [
            {name: _list_of(name, given) for name, given in rule.items()} for rule in self.exclude
        ]

    def known(self) -> list[str]:
        """Every name that may be a factor or an option."""
        return [*FACTORS, *option_names(self.workload)]


def _list_of(name: str, given: Level | list[Level]) -> list[Level]:
    """One level, or several; a level of `gpus` is itself a list of text."""
    one = name == "gpus" and isinstance(given, list) and all(isinstance(i, str) for i in given)
    return list(given) if isinstance(given, list) and not one else [given]  # type: ignore[list-item]


def options_of(chosen: Levels) -> Levels:
    """Those of the chosen levels that are options of a workload."""
    return {name: level for name, level in chosen.items() if name not in FACTORS}


def option_names(workload: str) -> list[str]:
    """The options of `workload`."""
    return [field.name for field in dataclasses.fields(workloads.options(workload))]


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


def load(path: Path, slice_name: str = "") -> Experiment:
    """Read, check and slice the experiment at `path`. Raises Refused."""
    experiment = _parse(strict_yaml.read(path, "experiment"), path.name)
    if slice_name:
        experiment = _sliced(experiment, slice_name)
    _check(experiment)
    return experiment


def resolve_options(workload: str, chosen: Levels) -> Levels:
    """All options of `workload` with `chosen` over the defaults. Raises Refused."""
    try:
        options = _declared(workload).Options.parse(chosen)
    except ValueError as error:
        raise Refused(f"option of {workload}: {error}") from error
    return dataclasses.asdict(options)


def _parse(given: dict[str, Any], where: str) -> Experiment:
    try:
        return Experiment.model_validate(given)
    except ValidationError as error:
        raise _refusal(error, where) from error


def _refusal(error: ValidationError, where: str) -> Refused:
    """The first of pydantic's findings, as a sentence with an example and what was given."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        known = list(PARTS.get(str(first["loc"][0]), Experiment).model_fields)
        return Refused(f"{where}: unknown name {name!r}", given=place, then=nearest(name, known))
    if first["type"] == "missing":
        return Refused(f"{where}: {place!r} is missing", example=EXAMPLES.get(place, ""))
    return Refused(
        f"{where}: {place}: {first['msg']}",
        example=EXAMPLES.get(str(first["loc"][0]), ""),
        given=repr(first.get("input"))[:200],
    )


# The parts of an experiment that are mappings with names of their own.
PARTS: dict[str, type[BaseModel]] = {
    "dataset": Dataset,
    "backgrounds": Background,
    "disturbed": Disturbed,
    "stop": Stop,
    "slices": Slice,
    "workloads": Own,
}
EXAMPLES = {
    "name": "name: quick",
    "title": "title: Native against Docker",
    "workload": "workload: tf_image_classification",
    "factors": "factors: {runtime: [native, docker], model: [resnet50]}",
    "baseline": "baseline: {runtime: native}",
    "repeats": "repeats: 5",
    "design": "design: duet",
    "visits": "visits: 3, or visits: balanced",
    "stop": "stop: {of: {runtime: docker}, within: 0.03}",
    "batch_size": "batch_size: 32",
    "seed": "seed: 1",
    "disturbed": "disturbed: {others: 0.1, again: 2}, or disturbed: false",
}


def _sliced(experiment: Experiment, name: str) -> Experiment:
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
    return f"This run is the slice {name!r} of it, with {stated or 'fewer repeats'}."


def _listed(value: Any) -> str:
    return " / ".join(map(str, value)) if isinstance(value, list) else str(value)


def _check(experiment: Experiment) -> None:
    """What the shape alone cannot say."""
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


def _check_workload(name: str, whose: str = "") -> None:
    if name not in workloads.NAMES:
        raise Refused(
            f"unknown workload {name!r}{whose}",
            example=EXAMPLES["workload"],
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
