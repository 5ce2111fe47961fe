"""From a run folder to frames: a row a trial, a row a step, a row a sample."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from . import schema
from .errors import EmptyRun, UnequalDigests


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
    journal: list[schema.JournalEvent]
    units: dict[str, str]

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that some trial has."""
        return list(self.units)

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
        if any(values.get("virtualisation") == "container" for values in self.hosts.values()):
            found.append(
                "The hosts are system containers that share one kernel, its clock and its disks: "
                "this is a rehearsal, and no basis for a decision."
            )
        return found + [
            f"Confounded with the hosts: {item.what}; {item.why}." for item in self.run.confounds
        ]


def load(folder: Path) -> Loaded:
    """Read the run in `folder`.

    `trials` holds run, slot, trial, cell, repetition, role, platform, hosts, status, cause,
    message, started, image, dataset and duration_s (launch to finish); a column for each level,
    for each metric (in its base unit) and, as `phase_NAME`, for each phase (s). `levels` is their
    canonical JSON. `flags` holds trial, name, detail; `drift` holds trial, key, reference, now.

    Raises SchemaError when a document cannot be read, EmptyRun when there is no record at all.
    """
    run, plan = schema.read_run(folder), schema.read_plan(folder)
    paths = sorted(folder.glob("trials/*/record.json"))
    whole = [path for path in paths if not path.parent.name.startswith(".")]
    every = [schema.read_record(path) for path in whole]
    # Of a trial that was tried again the last attempt counts; the others stay on disk.
    records = list({r.trial: r for r in sorted(every, key=lambda r: r.attempt)}.values())
    if not records:
        raise EmptyRun(f"{folder} has no finished trial yet; run the same command to continue it")
    order = {t.trial: i for i, t in enumerate(t for slot in plan.slots for t in slot.trials)}
    records.sort(key=lambda record: (order.get(record.trial, len(order)), record.trial))
    hosts = [schema.read_host(path) for path in sorted((folder / "hosts").glob("*.json"))]
    return Loaded(
        folder=folder,
        run=run,
        plan=plan,
        trials=pd.DataFrame([_row(record) for record in records]),
        flags=_details(records, "flags", ["name", "detail"]),
        drift=_details(records, "drift", ["key", "reference", "now"]),
        hosts={host.host: host.values for host in hosts},
        repeated=len(every) - len(records),
        journal=schema.read_journal(folder / "journal.jsonl"),
        units={name: m.unit for record in records for name, m in record.metrics.items()},
    )


def canonical(value: Any) -> str:
    """JSON with one spelling for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _row(record: schema.Record) -> dict[str, Any]:
    levels = {k: canonical(v) if isinstance(v, list) else v for k, v in record.levels.items()}
    reason = record.reason
    return {
        **levels,
        "run": record.run,
        "slot": record.slot,
        "trial": record.trial,
        "cell": record.cell,
        "repetition": record.repetition,
        "folder": record.trial + (f".a{record.attempt}" if record.attempt > 1 else ""),
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
        "image": record.image.digest,
        "dataset": record.dataset.digest if record.dataset else "",
        "levels": canonical(record.levels),
        **{name: measure.value for name, measure in record.metrics.items()},
        **{f"phase_{name}": seconds for name, seconds in record.phases.items()},
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
    """Raise UnequalDigests unless all usable trials ran the same image on the same data."""
    chosen = usable(trials)
    for part, what in (("image", "workload images"), ("dataset", "data sets")):
        found = sorted({str(digest) for digest in chosen[part] if digest})
        if len(found) > 1:
            examples = [chosen.loc[chosen[part] == digest, "trial"].iloc[0] for digest in found]
            pairs = zip(found, examples, strict=True)
            raise UnequalDigests(
                f"trials over unequal {what} cannot be compared: "
                + "; ".join(f"{digest[:19]} in {trial}" for digest, trial in pairs)
            )


def steps(loaded: Loaded) -> pd.DataFrame:
    """A row a step of the usable trials: trial, step, phase, worker, mono, duration_s, …

    Of a distributed trial the chief's: those of the others are in its file.
    """
    frame = _tables(loaded, "steps")
    return frame[frame["worker"] == 0].reset_index(drop=True) if len(frame) else frame


def usage(loaded: Loaded) -> pd.DataFrame:
    """A row a sample of the usable trials, with `t`: seconds since the trial was launched.

    Of a distributed trial those of the chief's host.
    """
    frame = _tables(loaded, "usage")
    if "host" in frame:
        chiefs = loaded.trials.set_index("trial")["hosts"].str.split(", ").str[0]
        frame = frame[frame["host"].isna() | (frame["host"] == frame["trial"].map(chiefs))]
    launched = loaded.trials.set_index("trial")["launched"]
    return frame.assign(t=frame["mono"] - frame["trial"].map(launched)) if len(frame) else frame


def _tables(loaded: Loaded, name: str) -> pd.DataFrame:
    """One Parquet file of each usable trial, one under the other; a missing file is passed over.

    Raises SchemaError when a file cannot be read.
    """
    rows = []
    for _, row in usable(loaded.trials).iterrows():
        trial, path = row["trial"], loaded.folder / "trials" / row["folder"] / f"{name}.parquet"
        if path.exists():
            rows += [{"trial": trial, **line} for line in _rows(path)]
    # By rows, since a column that is null throughout one trial has no type of its own there.
    return pd.DataFrame(rows)


def _rows(path: Path) -> list[dict[Any, Any]]:
    try:
        return pd.read_parquet(path).to_dict("records")
    except (ValueError, OSError) as error:  # pyarrow's own errors are both
        raise schema.SchemaError(f"{path} cannot be read: {error}") from error
