"""What an experiment may say: its shape, as pydantic checks it."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError
from strata.cell import Level, Levels
from strata.identity import digest

import workloads

from .. import blocks
from ..levels import FACTORS

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
    exclude: list[dict[str, Level | list[Level]]] = []  # beside what the experiment excludes
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
