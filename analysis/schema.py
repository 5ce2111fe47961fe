"""What a run's documents are: their keys and types, their version, and how old ones are read.

`docs/results.md` says what each key means. The writer validates before it writes, the analysis
when it reads. A document of an older schema is upgraded step by step; a newer one is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from .errors import AnalysisError

SCHEMA = 1

# From a schema to the next: UPGRADES[n] takes a document of schema n to n + 1.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

Level = str | int | float | bool | list[str] | None


class SchemaError(AnalysisError):
    """A document that cannot be read: which, why, and what to do."""


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Versioned(Document):
    # `schema` itself is a method of pydantic's.
    schema_number: int = Field(alias="schema")


class Measure(Document):
    value: FiniteFloat
    unit: str


class Reason(Document):
    cause: Literal[
        "start",
        "exit",
        "timeout",
        "memory",
        "output",
        "peer",
        "overlap",
        "controller_lost",
        "runtime_lost",
        "host_lost",
    ]
    message: str


class Image(Document):
    kind: Literal["rootfs", "oci", "venv"]
    digest: str


class Dataset(Document):
    name: str
    digest: str
    origin: Literal["given", "generated"]


class Clock(Document):
    launched: FiniteFloat
    finished: FiniteFloat


class Flag(Document):
    name: str
    detail: str


class Drift(Document):
    key: str
    reference: Any
    now: Any


class Beside(Document):
    trial: str
    overlap: FiniteFloat
    rate: Measure


class Member(Document):
    role: Literal["worker", "server"]
    index: int
    host: str
    status: Literal["ok", "failed", "void"]
    reason: Reason | None
    clock: Clock
    metrics: dict[str, Measure]
    phases: dict[str, FiniteFloat]
    cluster: dict[str, Any]


class Record(Versioned):
    run: str
    slot: str
    trial: str
    cell: str
    repetition: int
    role: Literal["measured", "background"]
    levels: dict[str, Level]
    platform: str
    hosts: list[str]
    status: Literal["ok", "failed", "void"]
    reason: Reason | None
    image: Image
    dataset: Dataset | None
    started: str
    clock: Clock
    metrics: dict[str, Measure]
    phases: dict[str, FiniteFloat]
    flags: list[Flag]
    drift: list[Drift]
    workload: dict[str, Any]
    attempt: int = 1
    beside: Beside | None = None
    members: list[Member] = []


class HostEntry(Document):
    substrate: str


class Version(Document):
    version: str
    commit: str


class LeftOut(Document):
    what: str
    why: str


class Run(Versioned):
    run: str
    name: str
    experiment: dict[str, Any]
    experiment_digest: str
    plan_digest: str
    seed: int
    testbed: str
    hosts: dict[str, HostEntry]
    image: Image
    dataset: Dataset | None
    created: str
    strata: Version
    baseline: dict[str, Level]
    demonstration: bool
    factors: list[str]
    left_out: list[LeftOut]
    confounds: list[LeftOut] = []


class PlannedMember(Document):
    role: Literal["worker", "server"]
    index: int
    host: str
    port: int


class PlannedTrial(Document):
    trial: str
    cell: str
    repetition: int
    role: Literal["measured", "background"]
    levels: dict[str, Level]
    members: list[PlannedMember] = []


class Slot(Document):
    slot: str
    block: str
    hosts: list[str]
    trials: list[PlannedTrial]


class Plan(Versioned):
    slots: list[Slot]
    estimate: dict[str, FiniteFloat]


class HostFingerprint(Versioned):
    host: str
    captured: str
    values: dict[str, Any]


class JournalEvent(BaseModel):
    """A line of the journal. What an event tells beyond its time depends on the event."""

    model_config = ConfigDict(extra="allow")

    event: Literal["opened", "resumed", "slot_started", "slot_finished", "closed"]
    wall: str
    mono: FiniteFloat


Kind = TypeVar("Kind", bound=Versioned)


def parse(kind: type[Kind], document: Any, where: str) -> Kind:
    """A document of any known schema as `kind`. Raises SchemaError naming `where`."""
    number = document.get("schema") if isinstance(document, dict) else None
    if type(number) is not int or number < min(UPGRADES, default=SCHEMA):  # True is an int, too
        raise SchemaError(f"{where} is not a document of Strata: its schema is {number!r}")
    if number > SCHEMA:
        raise SchemaError(
            f"{where} has schema {number} and this Strata reads up to {SCHEMA}: "
            "it was made by a newer Strata; update this checkout to read it"
        )
    _check_finite(document, where)
    for step in range(number, SCHEMA):
        document = {**UPGRADES[step](document), "schema": step + 1}
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SchemaError(
            f"{where} is damaged: {place}: {first['msg']} (given: {str(first['input'])[:80]})"
        ) from error


def _check_finite(value: Any, where: str, place: str = "") -> None:
    """Raise SchemaError at the first number that JSON has no spelling for, however deep."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SchemaError(f"{where} is damaged: {place} is {value}, and numbers are finite")
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _check_finite(part, where, f"{place}.{key}".lstrip("."))


def read(kind: type[Kind], path: Path) -> Kind:
    """The document in the file `path`. Raises SchemaError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SchemaError(f"there is no {path}") from None
    except (ValueError, OSError) as error:
        raise SchemaError(f"{path} cannot be read: {error}") from error
    return parse(kind, document, str(path))


def read_run(folder: Path) -> Run:
    """run.json of a run folder. Raises SchemaError when the folder is none."""
    if not (folder / "run.json").is_file():
        raise SchemaError(f"{folder} is not the folder of a run: it has no run.json")
    return read(Run, folder / "run.json")


def read_plan(folder: Path) -> Plan:
    return read(Plan, folder / "plan.json")


def read_record(path: Path) -> Record:
    return read(Record, path)


def read_host(path: Path) -> HostFingerprint:
    return read(HostFingerprint, path)


def read_journal(path: Path) -> list[JournalEvent]:
    """All events. Raises SchemaError at a line that is JSON and no event.

    A line that is not JSON was cut by a kill and is passed over: it is the last one, or, where
    the run was resumed, stands before the events of the resumption.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    events = []
    for number, line in enumerate(lines, 1):
        try:
            document = json.loads(line)
        except json.JSONDecodeError:
            continue
        try:
            events.append(JournalEvent.model_validate(document))
        except ValidationError as error:
            raise SchemaError(f"{path}, line {number}, is no event: {line[:80]}") from error
    return events


def validate_record(document: dict[str, Any]) -> Record:
    return parse(Record, document, f"the record of {document.get('trial')}")


def validate_run(document: dict[str, Any]) -> Run:
    return parse(Run, document, "run.json")


def validate_plan(document: dict[str, Any]) -> Plan:
    return parse(Plan, document, "plan.json")


def validate_host(document: dict[str, Any]) -> HostFingerprint:
    return parse(HostFingerprint, document, f"the fingerprint of {document.get('host')}")


def validate_event(document: dict[str, Any]) -> JournalEvent:
    """An event of the journal; it carries no schema of its own. Raises SchemaError."""
    _check_finite(document, "an event of the journal")
    try:
        return JournalEvent.model_validate(document)
    except ValidationError as error:
        raise SchemaError(f"an event of the journal is damaged: {error.errors()[0]}") from error
