"""An experiment: one YAML, read, checked, and refused in plain words.

Runs on the controller only (pydantic, PyYAML).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import workloads

from . import units
from .errors import Refused, nearest
from .identity import digest
from .members import DISTRIBUTIONS, PLACEMENTS
from .runtimes import NETWORKS

Level = str | int | float | bool | list[str] | None
Levels = dict[str, Level]

SUBSTRATES = ("bare_metal", "vm")
PLATFORM = ("substrate", "runtime", "network")
RESOURCES = ("cpus", "memory", "numa", "gpus", "quota")
# How many take part, where they are, and what runs beside them.
SCENARIO = ("distribution", "workers", "servers", "placement", "beside")
# What a trial may vary beside the options of its workload. `label` changes nothing: it
# names two sides of one platform, for an A/A comparison.
BUILT_IN = (*PLATFORM, "label", *RESOURCES, *SCENARIO)


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

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    path: str | None = None
    generate: Generate | None = None


class Background(Closed):
    """A job that runs beside a trial: by default the neighbour of CLOSER 2018."""

    workload: str = "tf_image_classification"
    options: Levels = {"model": "alexnet", "batch_size": 512}
    cpus: str | None = None
    quota: float | None = None
    memory: str | int | None = None


class Slice(Closed):
    """A named small part of an experiment; what it states replaces the experiment's own."""

    factors: dict[str, list[Level]] = {}
    options: Levels = {}
    backgrounds: dict[str, Background] = {}
    repeats: Annotated[int, Field(ge=1)] | None = None


class Experiment(Closed):
    """What is asked. Everything that is not stated has the default of its owner."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    title: str
    description: str = ""
    demonstration: bool = False
    workload: str
    factors: dict[str, list[Level]]
    options: Levels = {}
    backgrounds: dict[str, Background] = {}
    exclude: list[dict[str, Level | list[Level]]] = []
    baseline: Levels
    repeats: Annotated[int, Field(ge=1)]
    seed: int = 1
    time_limit: str | int = "15m"
    time_budget: str | int = "12h"
    disk_budget: str | int = "20G"
    dataset: Dataset | None = None
    slices: dict[str, Slice] = {}

    @property
    def identity(self) -> str:
        """A digest over all that decides which trials run."""
        return digest(self.model_dump(exclude={"title", "description", "slices"}))

    def known(self) -> list[str]:
        """Every name that may be a factor or an option."""
        return [*BUILT_IN, *option_names(self.workload)]


def option_names(workload: str) -> list[str]:
    """The options of `workload`. Raises Refused at one that is called as a factor of Strata is."""
    names = [field.name for field in dataclasses.fields(workloads.options(workload))]
    for name in names:
        if name in (*BUILT_IN, "workload"):
            raise Refused(
                f"an option of a workload has a name that no factor of every workload has: "
                f"{', '.join(BUILT_IN)}",
                given=f"{name} of {workload}",
                then=f"rename the option in workloads/{workload}",
            )
    return names


def load(path: Path, slice_name: str = "") -> Experiment:
    """Read, check and slice the experiment at `path`. Raises Refused."""
    try:
        given = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        names = sorted(p.stem for p in path.parent.glob("*.yml"))
        raise Refused(
            f"there is no experiment at {path}", given=path.stem, then=nearest(path.stem, names)
        ) from None
    except yaml.YAMLError as error:
        raise Refused(f"{path.name} is not YAML", given=str(error)) from error
    if not isinstance(given, dict):
        raise Refused(f"{path.name}: an experiment is a mapping", example="name: quick")
    experiment = _parse(given, path.name)
    if slice_name:
        experiment = _sliced(experiment, slice_name)
    _check(experiment)
    return experiment


def resolve_options(workload: str, chosen: Levels) -> Levels:
    """All options of `workload` with `chosen` over the defaults. Raises Refused."""
    option_names(workload)
    try:
        options = workloads.options(workload).parse(chosen)
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
        known = list(Experiment.model_fields)
        return Refused(f"{where}: unknown name {name!r}", given=place, then=nearest(name, known))
    if first["type"] == "missing":
        return Refused(f"{where}: {place!r} is missing", example=EXAMPLES.get(place, ""))
    return Refused(
        f"{where}: {place}: {first['msg']}",
        example=EXAMPLES.get(place, ""),
        given=repr(first.get("input")),
    )


EXAMPLES = {
    "name": "name: quick",
    "title": "title: Native against Docker",
    "workload": "workload: tf_image_classification",
    "factors": "factors: {runtime: [native, docker], model: [resnet50]}",
    "baseline": "baseline: {runtime: native}",
    "repeats": "repeats: 5",
    "batch_size": "batch_size: 32",
    "seed": "seed: 1",
}


def _sliced(experiment: Experiment, name: str) -> Experiment:
    if name not in experiment.slices:
        raise Refused(
            f"{experiment.name}: there is no slice {name!r}",
            given=name,
            then=nearest(name, list(experiment.slices)),
        )
    part = experiment.slices[name]
    moved = set(part.factors) | set(part.options)
    factors = {k: v for k, v in experiment.factors.items() if k not in moved} | part.factors
    options = {k: v for k, v in experiment.options.items() if k not in moved} | part.options
    return experiment.model_copy(
        update={
            "factors": factors,
            "options": options,
            "backgrounds": {**experiment.backgrounds, **part.backgrounds},
            "repeats": part.repeats or experiment.repeats,
            "description": f"{experiment.description} {_said_of(name, part)}".strip(),
            "demonstration": True,
        }
    )


def _said_of(name: str, part: Slice) -> str:
    """What a slice changes, for the page: it must not be taken for the whole."""
    changed = {**part.factors, **part.options}
    stated = ", ".join(f"{key} {_listed(value)}" for key, value in changed.items())
    return f"This run is the slice {name!r} of it, with {stated or 'fewer repeats'}."


def _listed(value: Any) -> str:
    return " / ".join(map(str, value)) if isinstance(value, list) else str(value)


def _check(experiment: Experiment) -> None:
    """What the shape alone cannot say."""
    if experiment.workload not in workloads.NAMES:
        raise Refused(
            f"unknown workload {experiment.workload!r}",
            example=EXAMPLES["workload"],
            given=experiment.workload,
            then=nearest(experiment.workload, list(workloads.NAMES)),
        )
    _check_names(experiment)
    _check_platform_levels(experiment)
    _check_numbers(experiment)
    _check_scenario(experiment)
    _check_generator(experiment)
    _check_baseline(experiment)
    for name, levels in experiment.factors.items():
        if not levels or len({repr(level) for level in levels}) != len(levels):
            raise Refused(
                f"factor {name!r} needs at least one level, each once",
                example="model: [resnet50, alexnet]",
                given=f"{name}: {levels}",
            )
    units.seconds(experiment.time_limit)
    units.seconds(experiment.time_budget)
    units.size(experiment.disk_budget)


def _check_names(experiment: Experiment) -> None:
    known = experiment.known()
    stated = [
        *(("factor", name) for name in experiment.factors),
        *(("option", name) for name in experiment.options),
        *(("factor in exclude", name) for rule in experiment.exclude for name in rule),
        *(("factor in baseline", name) for name in experiment.baseline),
    ]
    for kind, name in stated:
        if name not in known:
            raise Refused(f"unknown {kind} {name!r}", given=name, then=nearest(name, known))
    for name in set(experiment.factors) & set(experiment.options):
        raise Refused(
            f"{name!r} is both a factor and an option; state it once",
            given=f"factors.{name} and options.{name}",
        )


def _check_baseline(experiment: Experiment) -> None:
    for name, level in experiment.baseline.items():
        levels = experiment.factors.get(name)
        if levels is not None and level not in levels:
            raise Refused(
                f"the baseline's level of {name!r} is not one of the factor's levels",
                example=f"baseline: {{{name}: {levels[0]}}}",
                given=repr(level),
            )


def _check_generator(experiment: Experiment) -> None:
    generate = experiment.dataset.generate if experiment.dataset else None
    if generate is None:
        return
    makers = [name for name in workloads.NAMES if name.startswith("make_")]
    if generate.workload not in makers:
        raise Refused(
            f"no workload {generate.workload!r} makes datasets",
            example=f"generate: {{workload: {makers[0]}}}",
            given=generate.workload,
            then=nearest(generate.workload, makers),
        )
    resolve_options(generate.workload, generate.options)


def _levels(experiment: Experiment, name: str) -> list[Level]:
    """Every level that the experiment states for a factor or an option."""
    stated = [experiment.options[name]] if name in experiment.options else []
    return [*experiment.factors.get(name, []), *stated]


def _check_platform_levels(experiment: Experiment) -> None:
    networks = sorted({network for names in NETWORKS.values() for network in names})
    allowed = {
        "substrate": list(SUBSTRATES),
        "runtime": list(NETWORKS),
        "network": networks,
        "distribution": list(DISTRIBUTIONS),
        "placement": list(PLACEMENTS),
    }
    for name, known in allowed.items():
        for level in _levels(experiment, name):
            if level not in known:
                raise Refused(
                    f"unknown level {level!r} of {name!r}",
                    example=f"{name}: [{known[0]}]",
                    given=str(level),
                    then=nearest(str(level), known),
                )


def _check_numbers(experiment: Experiment) -> None:
    for name, kinds, least in (
        ("workers", int, 1),
        ("servers", int, 1),
        ("quota", (int, float), 0),
    ):
        for level in _levels(experiment, name):
            if name == "quota" and level is None:
                continue
            right = isinstance(level, kinds) and not isinstance(level, bool)
            if not right or level < least or level == 0:  # type: ignore[operator]
                what = "a whole number" if kinds is int else "a number of CPUs"
                raise Refused(
                    f"{name!r} must be {what}, more than 0",
                    example=f"{name}: [1, 2]",
                    given=repr(level),
                )


def _check_scenario(experiment: Experiment) -> None:
    """Backgrounds are known and sound; only a workload that can is distributed."""
    names = list(experiment.backgrounds)
    for level in _levels(experiment, "beside"):
        if level is not None and level not in names:
            raise Refused(
                f"unknown background {level!r}",
                example="backgrounds: {neighbour: {}} and factors: {beside: [null, neighbour]}",
                given=f"beside: {level}",
                then=nearest(str(level), names) if names else "declare it under backgrounds",
            )
    for job in experiment.backgrounds.values():
        if job.workload not in workloads.NAMES:
            raise Refused(
                f"unknown workload {job.workload!r} of a background",
                given=job.workload,
                then=nearest(job.workload, list(workloads.NAMES)),
            )
        resolve_options(job.workload, job.options)
    wanted = [level for level in _levels(experiment, "distribution") if level != "none"]
    if wanted and not workloads.workload(experiment.workload).TOPOLOGY.distributed:
        able = [n for n in workloads.NAMES if workloads.workload(n).TOPOLOGY.distributed]
        raise Refused(
            f"{experiment.workload} cannot be distributed",
            example=f"workload: {able[0] if able else 'tf_image_classification'}",
            given=f"distribution: {wanted[0]}",
        )
