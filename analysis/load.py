"""From a run folder to frames: a row a trial, a row a step, a row a sample."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from pyarrow import ArrowException

from schema import documents as schema
from schema import upgrades
from schema.documents import SchemaError

from . import conditions
from .conditions import sound
from .errors import EmptyRun, UnequalDigests
from .metrics import Metric, Metrics, unknown

# What every row of these files has, as a finite number.
NEEDED = {
    "steps": ("step", "worker", "mono", "duration_s"),
    "usage": ("mono",),
}
WORDS = ("phase", "host")  # the columns that hold none


@dataclass(frozen=True)
class Loaded:
    """A run in memory. `trials` has a row a trial, whatever its status; see `load`."""

    folder: Path
    run: schema.Run
    plan: schema.Plan
    trials: pd.DataFrame
    flags: pd.DataFrame
    drift: pd.DataFrame
    hosts: dict[str, dict[str, Any]]
    repeated: int  # earlier attempts of trials that were tried again
    strange: list[str]  # names in `trials` that are no trial's
    journal: list[schema.JournalEvent]
    metrics: Metrics
    facts: dict[str, dict[str, Any]]  # by trial: the conditions that it ran under, flat
    set_aside: list[str]  # what records say that cannot be used, and why

    def progress(self) -> tuple[int, int]:
        """Slots of which every trial has a record, and all slots."""
        done = set(self.trials["trial"])
        whole = [all(t.trial in done for t in slot.trials) for slot in self.plan.slots]
        return sum(whole), len(whole)

    def notices(self) -> list[str]:
        """What a reader must know of the completeness of this run; empty for a whole one."""
        done, slots = self.progress()
        found = []
        if done != slots:
            found.append(f"This run is not complete: {done} of {slots} slots have finished.")
        if self.repeated:
            found.append(
                f"{self.repeated} failed trials were tried again; their last attempt counts, and "
                "the earlier ones are in the folder of the run."
            )
        if usable(self.trials).empty:
            found.append(self._none_good())
        if self.folder.resolve().name != self.run.run:
            found.append(f"The folder {self.folder.resolve().name} holds the run {self.run.run}.")
        if self.strange:
            found.append(f"Left out, since they hold no record: {', '.join(self.strange)}.")
        if any(values.get("virtualisation") == "container" for values in self.hosts.values()):
            found.append(
                "The hosts are system containers that share one kernel, its clock and its disks: "
                "this is a rehearsal, and no basis for a decision."
            )
        found += [f"Left out: {each}." for each in self.set_aside]
        return found + [
            f"Confounded with the hosts: {item.what}; {item.why}." for item in self.run.confounds
        ]

    def _none_good(self) -> str:
        """One sentence on a run without a good trial, with the commonest reason."""
        lost = self.trials[self.trials["status"] != "ok"]
        reasons = (lost["cause"] + ": " + lost["message"]).value_counts(sort=True)
        why = f", {reasons.iloc[0]} times for the reason {reasons.index[0]!r}" if len(lost) else ""
        return f"No measured trial has ended well: {len(lost)} ended otherwise{why}."


def load(folder: Path) -> Loaded:
    """Read the run in `folder`.

    `trials` holds run, slot, trial, cell, repetition, role, platform, hosts, status, cause,
    message, started, family and image, dataset and duration_s (launch to finish); a column for
    each level, for each metric (in its base unit) and, as `phase_NAME`, for each phase (s).
    `levels` is their canonical JSON. `flags` holds trial, name, detail; `drift` holds trial, key,
    reference, now.

    Raises SchemaError when a document cannot be read, EmptyRun when there is no record at all.
    """
    run, plan = schema.read_run(folder), schema.read_plan(folder)
    hosts = [schema.read_host(path) for path in sorted((folder / "hosts").glob("*.json"))]
    found = of_records(folder, run, plan, schema.read_records(folder, run.run))
    return replace(
        found,
        hosts={host.host: host.values for host in hosts},
        strange=_strange(folder),
        journal=schema.read_journal(folder / "journal.jsonl"),
    )


def of_records(
    folder: Path, run: schema.Run, plan: schema.Plan, every: list[schema.Record]
) -> Loaded:
    """The records of all attempts as frames, without what else lies in the folder of the run.

    Raises SchemaError, EmptyRun.
    """
    # Of a trial that was tried again the last attempt counts; the others stay on disk.
    records = list({r.trial: r for r in sorted(every, key=lambda r: r.attempt)}.values())
    if not records:
        raise EmptyRun(f"{folder} has no finished trial yet; run the same command to continue it")
    order = {t.trial: i for i, t in enumerate(t for slot in plan.slots for t in slot.trials)}
    records.sort(key=lambda record: (order.get(record.trial, len(order)), record.trial))
    records, set_aside = sound(records, run, plan)
    if not records:
        raise SchemaError(f"{folder} has no record that can be used: {set_aside[0]}")
    metrics = _metrics(run, records)
    return Loaded(
        folder=folder,
        run=run,
        plan=plan,
        trials=pd.DataFrame([_row(record, metrics) for record in records]),
        flags=_details(records, "flags", ["name", "detail"]),
        drift=_details(records, "drift", ["key", "reference", "now"]),
        hosts={},
        repeated=len(every) - len(records),
        strange=[],
        journal=[],
        metrics=metrics,
        facts={record.trial: conditions.facts(record) for record in records},
        set_aside=set_aside,
    )


def _metrics(run: schema.Run, records: list[schema.Record]) -> Metrics:
    """What the run declares of its workloads, in the units that its records state."""
    ordered = sorted(records, key=lambda record: record.role != "measured")
    units: dict[str, dict[str, str]] = {}
    for record in ordered:
        own = units.setdefault(_workload(record), {})
        own.update({name: measure.unit for name, measure in record.metrics.items()})
    declared = {}
    for workload, own in units.items():
        entry = run.workloads.get(workload)
        known = [
            Metric(m.name, m.label, own.get(m.name, m.unit), m.better, m.headline)
            for m in (entry.metrics if entry else [])
        ]
        rest = sorted(set(own) - {metric.name for metric in known})
        declared[workload] = [*known, *(unknown(name, own[name]) for name in rest)]
    return Metrics(declared, {name for record in records for name in record.levels})


def _workload(record: schema.Record) -> str:
    return str(record.levels.get("workload"))


def _strange(folder: Path) -> list[str]:
    """What lies among the trials and is none; what a kill left half stored begins with a dot."""
    known = {path.name for path in schema.trial_folders(folder)}
    there = sorted(path.name for path in (folder / "trials").iterdir())
    return [name for name in there if name not in known and not name.startswith(".")]


def canonical(value: Any) -> str:
    """JSON with one spelling for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _row(record: schema.Record, metrics: Metrics) -> dict[str, Any]:
    row, workload = _facts(record), _workload(record)
    measured = {
        **{metrics.column(workload, name): m.value for name, m in record.metrics.items()},
        **{f"phase_{name}": seconds for name, seconds in record.phases.items()},
    }
    return {**row, **measured}


def _facts(record: schema.Record) -> dict[str, Any]:
    """What a record says of its trial, beside what was measured."""
    levels = {k: canonical(v) if isinstance(v, list) else v for k, v in record.levels.items()}
    reason = record.reason
    return {
        **levels,
        "run": record.run,
        "slot": record.slot,
        "trial": record.trial,
        "cell": record.cell,
        "repetition": record.repetition,
        "block": record.block,
        "round": record.round,
        "folder": schema.attempt_folder(record.trial, record.attempt),
        "role": record.role,
        "platform": record.platform,
        "hosts": ", ".join(record.hosts),
        "status": record.status,
        "cause": reason.cause if reason else "",
        "message": reason.message if reason else "",
        "started": record.started,
        "launched": record.clock.launched,
        "duration_s": record.clock.finished - record.clock.launched,
        "overlap": record.beside.overlap if record.beside else None,
        "neighbour": f"{record.beside.rate.value:.4g} {record.beside.rate.unit}"
        if record.beside
        else "",
        "family": record.image.family,
        "image": record.image.digest,
        "dataset": (record.dataset.digest or "none") if record.dataset else "",
        "levels": canonical(record.levels),
    }


def _details(records: list[schema.Record], part: str, columns: list[str]) -> pd.DataFrame:
    rows = [
        {"trial": record.trial, **item.model_dump()}
        for record in records
        for item in getattr(record, part)
    ]
    return pd.DataFrame(rows, columns=["trial", *columns])


def usable(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that figures are made of: measured ones that ended well."""
    return trials[(trials["status"] == "ok") & (trials["role"] == "measured")]


def check_digests(trials: pd.DataFrame) -> None:
    """Raise UnequalDigests unless all usable trials of an image family, and all of a workload, ran
    the same image, and all ran on the same data.
    """
    chosen = usable(trials)
    for group in ("family", "workload"):
        for _, alike in chosen.groupby(group):
            _check_same(alike, "image", "workload images")
    _check_same(chosen, "dataset", "data sets")


def _check_same(trials: pd.DataFrame, part: str, what: str) -> None:
    found = sorted({str(digest) for digest in trials[part] if digest})
    if len(found) > 1:
        examples = [trials.loc[trials[part] == digest, "trial"].iloc[0] for digest in found]
        pairs = zip(found, examples, strict=True)
        raise UnequalDigests(
            f"trials over unequal {what} cannot be compared: "
            + "; ".join(f"{digest[:19]} in {trial}" for digest, trial in pairs)
        )


def steps(loaded: Loaded) -> tuple[pd.DataFrame, list[str]]:
    """A row a step of the usable trials: trial, step, phase, worker, mono, duration_s, …

    Of a distributed trial the chief's: those of the others are in its file. With it the files
    that could not be read, and why.
    """
    frame, unread = _tables(loaded, "steps")
    return (frame[frame["worker"] == 0].reset_index(drop=True) if len(frame) else frame), unread


def usage(loaded: Loaded) -> tuple[pd.DataFrame, list[str]]:
    """A row a sample of the usable trials, with `t`: seconds since the trial was launched.

    Of a distributed trial those of the chief's host. With it the files that could not be read.
    """
    frame, unread = _tables(loaded, "usage")
    if "host" in frame:
        chiefs = loaded.trials.set_index("trial")["hosts"].str.split(", ").str[0]
        frame = frame[frame["host"].isna() | (frame["host"] == frame["trial"].map(chiefs))]
    launched = loaded.trials.set_index("trial")["launched"]
    frame = frame.assign(t=frame["mono"] - frame["trial"].map(launched)) if len(frame) else frame
    return frame, unread


def _tables(loaded: Loaded, name: str) -> tuple[pd.DataFrame, list[str]]:
    """One Parquet file of each usable trial, one under the other; a missing file is passed over.

    One that cannot be read is left out, and named with the reason.
    """
    rows, unread = [], []
    for _, row in usable(loaded.trials).iterrows():
        trial, path = row["trial"], loaded.folder / "trials" / row["folder"] / f"{name}.parquet"
        if os.path.lexists(path):
            try:
                rows += [{"trial": trial, **line} for line in _rows(path, NEEDED[name])]
            except SchemaError as error:
                unread.append(str(error))
    # By rows, since a column that is null throughout one trial has no type of its own there.
    return pd.DataFrame(rows), unread


def _rows(path: Path, needed: tuple[str, ...]) -> list[dict[Any, Any]]:
    """The rows of a Parquet file. Raises SchemaError when it cannot be read, or lacks numbers."""
    try:
        if not path.is_file():
            raise OSError("it is not an ordinary file")
        frame = pd.read_parquet(path)
    except (ValueError, TypeError, OSError, NotImplementedError, ArrowException) as error:
        raise SchemaError(f"{path} cannot be read: {error}") from error
    for name in needed:
        if name not in frame or not _finite(frame[name]):
            raise SchemaError(f"{path} is damaged: not every row has a number {name!r}")
    if "duration_s" in needed and not (frame["duration_s"] > 0).all():
        raise SchemaError(f"{path} is damaged: a step has no duration")
    for name in frame.columns.difference(frame.select_dtypes("number").columns):
        if name not in WORDS and frame[name].notna().any():
            raise SchemaError(f"{path} is damaged: {name!r} holds other things than numbers")
    return cast(list[dict[Any, Any]], frame.rename(columns=upgrades.STEPS).to_dict("records"))


def _finite(column: pd.Series) -> bool:
    return is_numeric_dtype(column) and bool(np.isfinite(column.to_numpy(dtype=float)).all())
