"""From a run folder to frames: a row a trial, a row a step, a row a sample."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import compute, parquet

from schema import documents as schema
from schema import lives, lock, upgrades
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
# What of them the analysis looks at; the files have more.
KEPT = {
    "steps": ("step", "phase", "worker", "items", "duration_s"),
    "usage": ("mono", "host", "cpu_busy", "workload_cpu", "memory_used", "workload_memory"),
}


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
    attempts: pd.DataFrame  # as `trials`, a row an attempt, earlier ones of a trial among them
    rebuilds: list[lock.Rebuild]  # what came of building the testbed again
    lives: list[lives.Life]  # of instances of hosts that providers made

    @property
    def stopped(self) -> int:
        """The round after which its own rule has ended the run; 0 where it has not."""
        found = (e.model_dump() for e in self.journal if e.event == "stopped")
        return next((int(event["round"]) for event in found), 0)

    @property
    def emulated(self) -> list[str]:
        """The hosts whose CPU a program emulates: how fast they are says nothing of any machine."""
        return self._those("accelerator", "tcg")

    @property
    def contained(self) -> list[str]:
        """The hosts that are system containers of one machine, as the nodes of a rehearsal lab."""
        return self._those("virtualisation", "container")

    def progress(self) -> tuple[int, int]:
        """Slots of which every trial has a record, and all slots that were to be measured."""
        done, last = set(self.trials["trial"]), self.stopped
        slots = [slot for slot in self.plan.slots if not last or slot.round <= last]
        whole = [all(t.trial in done for t in slot.trials) for slot in slots]
        return sum(whole), len(whole)

    def notices(self) -> list[str]:
        """What a reader must know of the completeness of this run; empty for a whole one."""
        done, slots = self.progress()
        found = []
        if done != slots:
            found.append(f"This run is not complete: {done} of {slots} slots have finished.")
        if self.repeated:
            disturbed = int((self.attempts["cause"] == "disturbed").sum())
            found.append(
                f"{self.repeated} trials were run again, since they had failed or something "
                f"disturbed their pair ({disturbed} trials were disturbed); the last attempt "
                "counts, and the earlier ones are in the folder of the run."
            )
        if usable(self.trials).empty:
            found.append(self._none_good())
        if self.folder.resolve().name != self.run.run:
            found.append(f"The folder {self.folder.resolve().name} holds the run {self.run.run}.")
        if self.strange:
            found.append(f"Left out, since they hold no record: {', '.join(self.strange)}.")
        if self.contained:
            found.append(
                "System containers share one kernel, its clock and its disks: "
                f"{', '.join(self.contained)}. This is a rehearsal, and no basis for a decision."
            )
        if self.emulated:
            found.append(
                f"QEMU emulates the CPU of {', '.join(self.emulated)}: what was measured there "
                "shows that it runs, and has no verdict about performance."
            )
        found += [f"Left out: {each}." for each in self.set_aside]
        return found + [
            f"Confounded with the hosts: {item.what}; {item.why}." for item in self.run.confounds
        ]

    def _those(self, key: str, value: str) -> list[str]:
        return sorted(host for host, has in self.hosts.items() if has.get(key) == value)

    def _none_good(self) -> str:
        """One sentence on a run without a good trial, with the commonest reason."""
        lost = self.trials[self.trials["status"] != "ok"]
        reasons = (lost["cause"] + ": " + lost["message"]).value_counts(sort=True)
        why = f", {reasons.iloc[0]} times for the reason {reasons.index[0]!r}" if len(lost) else ""
        return f"No measured trial has ended well: {len(lost)} ended otherwise{why}."


def load(folder: Path) -> Loaded:
    """Read the run in `folder`.

    `trials` holds run, slot, trial, cell, repetition, role, platform, hosts, status, cause,
    message, started, family and image, dataset, path_mtu (bytes) and duration_s (launch to
    finish); a column for each level, for each metric (in its base unit), as `phase_NAME` for each
    phase (s), and as `disturbance_NAME` for each cause that disturbed it (its share of the
    measured span).
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
        rebuilds=lock.read_rebuilds(folder),
        lives=lives.read_lives(folder),
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
    trials = pd.DataFrame([_row(record, metrics) for record in records])
    last = {(record.trial, record.attempt) for record in records}
    earlier, _ = sound([r for r in every if (r.trial, r.attempt) not in last], run, plan)
    before = pd.DataFrame([_row(record, metrics) for record in earlier])
    return Loaded(
        folder=folder,
        run=run,
        plan=plan,
        trials=trials,
        attempts=pd.concat([trials, before], ignore_index=True) if len(before) else trials,
        flags=_details(records, "flags", ["name", "detail"]),
        drift=_details(records, "drift", ["key", "reference", "now"]),
        hosts={},
        repeated=len(every) - len(records),
        strange=[],
        journal=[],
        rebuilds=[],
        lives=[],
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
        **{f"disturbance_{name}": share for name, share in record.disturbance.items()},
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
        "attempt": record.attempt,
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
        "side": record.duet.side if record.duet else 0,
        "together_s": record.duet.seconds if record.duet else 0.0,
        "neighbour": f"{record.beside.rate.value:.4g} {record.beside.rate.unit}"
        if record.beside
        else "",
        "family": record.image.family,
        "image": record.image.digest,
        "dataset": (record.dataset.digest or "none") if record.dataset else "",
        "levels": canonical(record.levels),
        "path_mtu": _path_mtu(record),
    }


def _path_mtu(record: schema.Record) -> float:
    """The largest packet (bytes) that the chief could send whole, where its program says so."""
    said = [(member.environment.get("route") or {}).get("path_mtu") for member in record.members]
    return float(next((mtu for mtu in said if isinstance(mtu, int)), math.nan))


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
    """Raise UnequalDigests unless all usable trials of an image family, and all of a workload with
    one framework, ran the same image, and all ran on the same data.
    """
    chosen = usable(trials)
    framework = [name for name in ("framework",) if name in chosen]
    for group in (["family"], ["workload", *framework]):
        for _, alike in chosen.groupby(group, dropna=False):
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
    """A row a step of the usable trials: trial, and those of KEPT that the files have.

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
    if frame.empty:
        return frame, unread
    if "host" in frame:
        chiefs = loaded.trials.set_index("trial")["hosts"].str.split(", ").str[0]
        of_chief = frame["trial"].map(chiefs).astype(object) == frame["host"].astype(object)
        frame = frame[frame["host"].isna() | of_chief]
    launched = frame["trial"].map(loaded.trials.set_index("trial")["launched"])
    return frame.assign(t=frame["mono"] - launched.astype(float)), unread


def _tables(loaded: Loaded, name: str) -> tuple[pd.DataFrame, list[str]]:
    """One Parquet file of each usable trial, one under the other; a missing file is passed over.

    One that cannot be read is left out, and named with the reason. Texts are categories: a million
    rows name a thousand trials.
    """
    tables, of, unread = [], [], []
    for _, row in usable(loaded.trials)[["trial", "folder"]].iterrows():
        path = loaded.folder / "trials" / row["folder"] / f"{name}.parquet"
        if os.path.lexists(path):
            try:
                tables.append(_table(path, name))
                of.append(row["trial"])
            except SchemaError as error:
                unread.append(str(error))
    if not tables:
        return pd.DataFrame(), unread
    # A column that is null throughout one trial has no type of its own there.
    whole = pa.concat_tables(tables, promote_options="permissive")
    numbers = np.repeat(np.arange(len(of)), [len(table) for table in tables])
    tables.clear()
    frame = whole.to_pandas(split_blocks=True, self_destruct=True)
    pa.default_memory_pool().release_unused()
    trial = pd.Categorical.from_codes(numbers, pd.Index(of, dtype=str))
    return frame.assign(trial=trial), unread


def _table(path: Path, name: str) -> pa.Table:
    """The KEPT columns of a Parquet file, all of which are looked at.

    Raises SchemaError when it cannot be read, or lacks numbers.
    """
    try:
        if not path.is_file():
            raise OSError("it is not an ordinary file")
        with parquet.ParquetFile(path) as file:
            table = file.read(use_threads=False).replace_schema_metadata()
    except (ValueError, TypeError, OSError, NotImplementedError, pa.ArrowException) as error:
        raise SchemaError(f"{path} cannot be read: {error}") from error
    table = table.rename_columns([upgrades.STEPS.get(each, each) for each in table.column_names])
    for needed in NEEDED[name]:
        if needed not in table.column_names or not _finite(table[needed]):
            raise SchemaError(f"{path} is damaged: not every row has a number {needed!r}")
    if name == "steps" and not compute.min(table["duration_s"]).as_py() > 0:
        raise SchemaError(f"{path} is damaged: a step has no duration")
    for field in table.schema:
        other = not _is_number(field.type) and not pa.types.is_null(field.type)
        if field.name not in WORDS and other and table[field.name].null_count < len(table):
            raise SchemaError(f"{path} is damaged: {field.name!r} holds other things than numbers")
    return _kept(table, KEPT[name])


def _kept(table: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """These columns: words as categories, everything else as numbers."""
    found = table.select([name for name in names if name in table.column_names])
    for place, name in enumerate(found.column_names):
        if name in WORDS:
            words = found[name].cast(pa.string()).dictionary_encode()
            found = found.set_column(place, name, words)
        elif not _is_number(found[name].type):
            found = found.set_column(place, name, found[name].cast(pa.float64()))
    return found


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _finite(column: pa.ChunkedArray) -> bool:
    known = _is_number(column.type) and not column.null_count
    return known and bool(np.isfinite(column.to_numpy()).all())
