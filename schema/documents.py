"""What a run's documents are: their keys and types, their version, and how old ones are read.

`docs/results.md` says what each key means. The writer validates before it writes, the analysis
when it reads. A document of an older schema is upgraded step by step; a newer one is refused.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from . import names, upgrades

SCHEMA = 4


def _asked_is_unknown(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not say what a dataset was asked to be, and its journal knew no `reported`."""
    data = document.get("dataset")
    return {**document, "dataset": {**data, "asked": None}} if data else document


# From a schema to the next: UPGRADES[n] takes a document of schema n to n + 1.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _asked_is_unknown,
    2: upgrades.declared,
    3: upgrades.families,
}

# In the name of a trial's folder: its second attempt, and so on.
ATTEMPT = ".a"
# Deeper than any document of Strata, and far from what Python can follow.
DEEPEST = 64


def _name(text: str) -> str:
    if not names.is_name(text):
        raise ValueError(names.RULE)
    return text


# What is, or leads to, the name of a folder.
Name = Annotated[str, AfterValidator(_name)]
Level = str | int | float | bool | list[str] | None
# A number as JSON has them: neither "12.5" nor true is one, nor what JSON has no spelling for.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True)]


class SchemaError(ValueError):
    """A document that cannot be read: which, why, and what to do."""


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Versioned(Document):
    # `schema` itself is a method of pydantic's.
    schema_number: int = Field(alias="schema")


class Measure(Document):
    value: Number
    unit: str


class Metric(Document):
    name: str
    label: str
    unit: str
    better: Literal["higher", "lower", ""]
    headline: bool
    combine: str
    role: str = ""


class Workload(Document):
    items: str | None
    metrics: list[Metric]


class Network(Document):
    headers: Count  # bytes that it puts before each packet between two hosts


class Reason(Document):
    cause: Literal[
        "start",
        "exit",
        "timeout",
        "memory",
        "output",
        "peer",
        "overlap",
        "disturbed",
        "controller_lost",
        "runtime_lost",
        "host_lost",
        "unschedulable",
        "evicted",
        "image",
    ]
    message: str


class Image(Document):
    family: str
    kind: Literal["rootfs", "oci", "venv"]
    digest: str


class Dataset(Document):
    name: str
    digest: str
    origin: Literal["given", "generated"]
    asked: dict[str, Any] | None  # of a generated one: the workload and all its options


class Clock(Document):
    launched: Number
    finished: Number


class Flag(Document):
    name: str
    detail: str
    share: Number | None = None  # of the measured window, where the doubt is one of its causes


class Drift(Document):
    key: str
    reference: Any
    now: Any


class Beside(Document):
    trial: str
    overlap: Number
    rate: Measure


class Duet(Document):
    """Of a trial that was measured beside the other arm of its pair."""

    side: Literal[1, 2]  # which half of its host's CPUs it had
    cpus: str
    trial: str = ""  # the other one
    seconds: Number = 0.0  # in which both were measured
    share: Number = 0.0  # that this is of its own measured window


class Member(Document):
    role: str
    index: int
    host: str
    status: Literal["ok", "failed", "void"]
    reason: Reason | None
    clock: Clock
    metrics: dict[str, Measure]
    phases: dict[str, Number]
    cluster: dict[str, Any]
    environment: dict[str, Any] = {}  # as its program saw it; older records do not say


class Record(Versioned):
    run: str
    slot: Name
    trial: Name
    cell: Name
    repetition: Count
    block: str = ""
    round: Count = 0  # 0: a record of before schema 3, which did not say
    position: Count = 0
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
    phases: dict[str, Number]
    flags: list[Flag]
    drift: list[Drift]
    workload: dict[str, Any]
    attempt: Count = 1
    beside: Beside | None = None
    duet: Duet | None = None
    members: list[Member] = []
    disturbance: dict[str, Number] = {}  # by cause its share of the measured window


class HostEntry(Document):
    substrate: str
    instance: str = ""  # of a host that a provider made, when the run was opened


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
    images: list[Image]
    dataset: Dataset | None
    created: str
    strata: Version
    baseline: dict[str, Level]
    demonstration: bool
    factors: list[str]
    workloads: dict[str, Workload]
    networks: dict[str, Network] = {}  # older runs do not say
    left_out: list[LeftOut]
    confounds: list[LeftOut] = []


class PlannedPort(Document):
    name: str
    protocol: Literal["tcp", "udp"]
    number: int


class PlannedMember(Document):
    role: str
    index: int
    host: str
    ports: list[PlannedPort] = []
    # Plans of before there were several did not name it, and are not run any more.
    port: int | None = Field(default=None, exclude=True)


class PlannedTrial(Document):
    trial: Name
    cell: Name
    repetition: Count
    role: Literal["measured", "background"]
    family: str
    levels: dict[str, Level]
    members: list[PlannedMember] = []
    scratch: bool = False
    side: Literal[0, 1, 2] = 0  # of a duet, which half of the host's CPUs it has


class Slot(Document):
    slot: Name
    block: str
    setting: str = ""
    round: Count = 0  # 0: a plan of before schema 3, which did not say
    position: Count = 0
    hosts: list[str]
    trials: list[PlannedTrial]
    rebuild: Count = 0  # of the testbed; 0: it is built once


class Plan(Versioned):
    slots: list[Slot]
    estimate: dict[str, Number]


class HostFingerprint(Versioned):
    host: str
    captured: str
    values: dict[str, Any]


class JournalEvent(BaseModel):
    """A line of the journal. What an event tells beyond its time depends on the event."""

    model_config = ConfigDict(extra="allow")

    event: Literal[
        "opened",
        "resumed",
        "setting_begun",
        "setting_proven",
        "setting_failed",
        "setting_left",
        "rebuild_begun",
        "rebuilt",
        "rested",
        "warmed_up",
        "slot_started",
        "slot_finished",
        "not_repeated",
        "stopped",
        "closed",
        "reported",
    ]
    wall: str
    mono: Number


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
    _check_values(document, where)
    for step in range(number, SCHEMA):
        document = {**UPGRADES[step](document), "schema": step + 1}
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SchemaError(
            f"{where} is damaged: {place}: {first['msg']} (given: {_brief(first['input'])})"
        ) from error


def _check_values(value: Any, where: str, place: str = "", depth: int = 0) -> None:
    """Raise SchemaError at the first number that JSON has no spelling for, however deep.

    A number with hundreds of digits, which no column can hold, is none either.
    """
    if depth > DEEPEST:
        raise SchemaError(f"{where} is damaged: it is nested deeper than {DEEPEST} levels")
    if isinstance(value, int | float) and not abs(value) <= sys.float_info.max:
        raise SchemaError(f"{where} is damaged: {place} is {_brief(value)}, and numbers are finite")
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _check_values(part, where, f"{place}.{key}".lstrip("."), depth + 1)


def _brief(value: Any) -> str:
    """A value as it was given, or how it begins."""
    try:
        return repr(value)[:80]
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a very large number"


def text_of(path: Path) -> str:
    """The text of an ordinary file; a pipe is not waited for. Raises OSError, ValueError."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path.name} is not an ordinary file")
    return path.read_text(encoding="utf-8")


def read(kind: type[Kind], path: Path) -> Kind:
    """The document in the file `path`. Raises SchemaError."""
    try:
        text = text_of(path)
        document = json.loads(text)
        if "\\ud" in text.lower():
            # Half of a surrogate pair is a character to JSON, and to nothing that comes after.
            whole = json.dumps(document, ensure_ascii=False).encode(errors="replace")
            document = json.loads(whole)
    except (FileNotFoundError, NotADirectoryError):
        raise SchemaError(f"there is no {path}") from None
    except (ValueError, OSError, RecursionError) as error:
        raise SchemaError(f"{path} cannot be read: {error}") from error
    return parse(kind, document, str(path))


def read_run(folder: Path) -> Run:
    """run.json of a run folder. Raises SchemaError when the folder is none."""
    try:
        (folder / "run.json").stat()
    except OSError as error:
        known = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "it has no run.json" if known else error.strerror
        raise SchemaError(f"{folder} is not the folder of a run: {why}") from None
    return read(Run, folder / "run.json")


def read_plan(folder: Path) -> Plan:
    """plan.json of a run folder. Raises SchemaError, also where it has a trial twice."""
    path = folder / "plan.json"
    plan = read(Plan, path)
    names = Counter(trial.trial for slot in plan.slots for trial in slot.trials)
    twice = [name for name, number in names.items() if number > 1]
    if twice:
        raise SchemaError(f"{path} is damaged: it has the trial {twice[0]} twice")
    return plan


def read_record(path: Path) -> Record:
    """A trial's record. Raises SchemaError, also when it is of another trial than its folder."""
    record, folder = read(Record, path), path.parent
    _check_place(path, record.trial, folder.name, attempt_folder(record.trial, record.attempt))
    return record


def read_host(path: Path) -> HostFingerprint:
    """A host's fingerprint. Raises SchemaError, also when it is of another host than its file."""
    found = read(HostFingerprint, path)
    _check_place(path, found.host, path.name, f"{found.host}.json")
    return found


def attempt_folder(trial: str, attempt: int) -> str:
    """The name of the folder of one attempt, from 1, of a trial."""
    return trial if attempt == 1 else f"{trial}{ATTEMPT}{attempt}"


def attempt_of(folder: str) -> tuple[str, int] | None:
    """The trial and the attempt that a folder is named by; None where it is named otherwise."""
    trial, _, number = folder.partition(ATTEMPT)
    attempt = int(number) if number.isdecimal() else 1
    return (trial, attempt) if folder == attempt_folder(trial, attempt) else None


def _check_place(path: Path, says: str, place: str, belongs: str) -> None:
    if place != belongs:
        raise SchemaError(f"{path} is not where it belongs: it is the document of {says!r}")


def read_records(folder: Path, run: str) -> list[Record]:
    """The records of all attempts of all trials in the run folder `folder`, by name.

    Raises SchemaError naming the first that cannot be read, or is of another run.
    """
    records = []
    for path in trial_folders(folder):
        try:
            record = read_record(path / "record.json")
            if record.run != run:
                raise SchemaError(f"{path / 'record.json'} belongs to another run: {record.run!r}")
        except SchemaError as error:
            raise SchemaError(
                f"{error}; move {path} away, and run the same command again: the trial is repeated"
            ) from error
        records.append(record)
    return records


def trial_folders(folder: Path) -> list[Path]:
    """The folders of the run folder `folder` that hold a record, by name. Raises SchemaError."""
    trials = folder / "trials"
    try:
        found = sorted(trials.iterdir()) if trials.exists() else []
        whole = [path for path in found if not path.name.startswith(".")]
        return [path for path in whole if path.is_dir() and _is_there(path / "record.json")]
    except OSError as error:
        raise SchemaError(f"{trials} cannot be read: {error}") from error


def _is_there(path: Path) -> bool:
    """Whether there is something of this name, be it a link that leads nowhere."""
    return os.path.lexists(path)


def read_journal(path: Path) -> list[JournalEvent]:
    """All events. Raises SchemaError at a line that is JSON and no event.

    A line that is not JSON was cut by a kill and is passed over: it is the last one, or, where
    the run was resumed, stands before the events of the resumption.
    """
    try:
        lines = text_of(path).split("\n") if path.exists() else []
    except (OSError, ValueError) as error:
        raise SchemaError(f"{path} cannot be read: {error}") from error
    events = []
    for number, line in enumerate(lines, 1):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        _check_values(document, f"{path}, line {number},")
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
    _check_values(document, "an event of the journal")
    try:
        return JournalEvent.model_validate(document)
    except ValidationError as error:
        raise SchemaError(f"an event of the journal is damaged: {error.errors()[0]}") from error
