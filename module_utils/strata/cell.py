"""A cell by its parts: what it is placed on, what it is given, who takes part, and its options.

Plans and records have a cell flat, as one mapping `levels` from each name to its level. This is
the one place that takes it apart and puts it together, for the controller and for hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from .identity import short

Level = str | int | float | bool | list[str] | None
Levels = dict[str, Level]


@dataclass(frozen=True)
class Part:
    """Some of the built-in names of a cell."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """In the order in which a cell has them."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def of(cls, levels: Mapping[str, Any]) -> Self:
        """From flat levels. Raises KeyError where one is missing."""
        return cls(**{name: levels[name] for name in cls.names()})


@dataclass(frozen=True)
class Platform(Part):
    """What a trial runs on."""

    substrate: str
    runtime: str
    network: str

    def __str__(self) -> str:
        return "/".join((self.substrate, self.runtime, self.network))


@dataclass(frozen=True)
class Resources(Part):
    """What each program of a trial is given of its host; None is no limit."""

    cpus: str | None = None  # a CPU set, "0-3,8"
    memory: int | None = None  # bytes
    numa: int | None = None  # a node
    gpus: list[str] | None = None  # by number or UUID
    quota: float | None = None  # CPUs' worth of time, on whichever CPUs


@dataclass(frozen=True)
class Scenario(Part):
    """How many members a trial has, where they are, and what runs beside them.

    `workers` is the number of members of the first role that the workload's topology names, and
    `servers` that of the second.
    """

    distribution: str = "none"
    workers: int = 1
    servers: int = 0
    placement: str = "spread"
    beside: str | None = None

    @property
    def members(self) -> int:
        return self.workers + self.servers


@dataclass(frozen=True)
class Cell:
    """One combination of levels, all of them resolved."""

    platform: Platform
    workload: str
    label: str = ""
    resources: Resources = field(default_factory=Resources)
    scenario: Scenario = field(default_factory=Scenario)
    options: Levels = field(default_factory=dict)  # of the workload
    job: Cell | None = None  # that runs beside it; its levels are not among the cell's own

    @classmethod
    def of(cls, levels: Mapping[str, Any]) -> Cell:
        """From flat levels. Raises KeyError where a built-in one is missing."""
        return cls(
            platform=Platform.of(levels),
            workload=levels["workload"],
            label=levels["label"],
            resources=Resources.of(levels),
            scenario=Scenario.of(levels),
            options={name: level for name, level in levels.items() if name not in NAMES},
        )

    @cached_property
    def levels(self) -> Levels:
        """Flat, as plans and records have them: the built-in names first, then the options."""
        return {
            **asdict(self.platform),
            "label": self.label,
            "workload": self.workload,
            **asdict(self.resources),
            **asdict(self.scenario),
            **self.options,
        }

    @cached_property
    def name(self) -> str:
        """The same for the same levels, whatever their order, and those of its job."""
        return short(self.levels if self.job is None else [self.levels, self.job.levels])


PLATFORM = Platform.names()
# Every built-in name, in the order of a cell's levels. No option of a workload has one of them.
NAMES = (
    *PLATFORM,
    *("label", "workload"),
    *Resources.names(),
    *Scenario.names(),
)
