"""The results folder of a run: opened, filled trial by trial, resumed, closed.

Runs on the controller only (pyarrow). The layout is in docs/results.md. A trial's folder is
filled aside and renamed into place, so that it is there whole or not at all; the journal
is appended and synced. Whatever instant the power goes, what is there is right, and the
slots without a record are what is left to do.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import schema

from . import files, gather, record
from .errors import Refused

# In the name of a trial's folder: its second attempt, and so on.
ATTEMPT = ".a"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_name(experiment: str) -> str:
    return f"{experiment}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def choose(results: Path, experiment: str, plan_digest: str, wanted: str = "") -> tuple[str, bool]:
    """The name of the run to execute, and whether it is there already.

    Without a name: the newest unfinished run of this very plan, or else a new one. Raises
    Refused when the wanted folder belongs to another plan, or cannot be read.
    """
    if wanted:
        folder = results / wanted
        if not folder.exists():
            return wanted, False
        run = Run(folder)
        if run.plan_digest != plan_digest:
            raise Refused(
                f"{folder} holds the results of another experiment or testbed",
                given=f"{run.document['name']}, plan {run.plan_digest[:12]}, "
                f"and not {experiment}, plan {plan_digest[:12]}",
                then="choose another name for this run: -e strata_run=NAME",
            )
        return wanted, True
    for folder in sorted(results.glob(f"{experiment}-*"), reverse=True):
        if not (folder / "run.json").exists():
            continue
        run = Run(folder)
        if run.plan_digest == plan_digest and not run.closed():
            return folder.name, True
    return new_name(experiment), False


class Run:
    """A run folder. Raises Refused when it is no run, or of a newer schema."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.document: dict[str, Any] = schema.read_run(folder).model_dump(
                mode="json", by_alias=True
            )
        except schema.SchemaError as error:
            raise Refused(str(error), given=str(folder)) from error

    @classmethod
    def create(
        cls, folder: Path, run: dict[str, Any], plan: dict[str, Any], hosts: dict[str, Any]
    ) -> Run:
        """A new run folder; `run.json` comes last, since it is what makes the folder a run."""
        for part in (folder, folder / "trials", folder / "hosts"):
            part.mkdir(parents=True, exist_ok=True)
        for name, values in hosts.items():
            document = {"schema": schema.SCHEMA, "host": name, "captured": now(), "values": values}
            files.write_json(folder / "hosts" / f"{name}.json", document)
        files.write_json(folder / "plan.json", {"schema": schema.SCHEMA, **plan})
        document = {"schema": schema.SCHEMA, "created": now(), **run}
        try:
            schema.validate_run(document)
        except schema.SchemaError as error:
            raise Refused(str(error)) from error
        files.write_json(folder / "run.json", document)
        created = cls(folder)
        created.event("opened")
        return created

    @property
    def plan_digest(self) -> str:
        return str(self.document["plan_digest"])

    def slots(self) -> list[dict[str, Any]]:
        plan = json.loads((self.folder / "plan.json").read_text())
        return list(plan["slots"])

    def latest(self) -> dict[str, tuple[int, Path]]:
        """Each trial's last attempt, from 1, and its folder. Earlier ones stay where they are."""
        found: dict[str, tuple[int, Path]] = {}
        for path in self.folder.glob("trials/[!.]*/record.json"):
            trial, _, number = path.parent.name.partition(ATTEMPT)
            attempt = int(number or 1)
            if attempt > found.get(trial, (0, path))[0]:
                found[trial] = (attempt, path.parent)
        return found

    def statuses(self) -> dict[str, str]:
        """How the last attempt of each trial ended."""
        return {
            trial: json.loads((folder / "record.json").read_text())["status"]
            for trial, (_, folder) in self.latest().items()
        }

    def done(self) -> set[str]:
        """Trials that have a record, whatever its status."""
        return set(self.latest())

    def pending(self, retry: Collection[str] = (), attempts: int = 1) -> list[dict[str, Any]]:
        """Slots of which a trial has no record yet, or failed with a cause that is tried again.

        A trial is tried `attempts` times in all, and only for the causes in `retry`.
        """
        latest = self.latest()
        again = {
            trial
            for trial, (number, folder) in latest.items()
            if number < attempts and _cause(folder) in retry
        }
        return [
            slot
            for slot in self.slots()
            if any(t["trial"] not in latest or t["trial"] in again for t in slot["trials"])
        ]

    def references(self) -> dict[str, dict[str, Any]]:
        """The fingerprint of each host when the run was opened."""
        paths = (self.folder / "hosts").glob("*.json")
        return {path.stem: schema.read_host(path).values for path in paths}

    def check_records(self) -> None:
        """Read every record. Raises Refused naming the first that cannot be read."""
        for path in sorted(self.folder.glob("trials/*/record.json")):
            try:
                schema.read_record(path)
            except schema.SchemaError as error:
                raise Refused(str(error)) from error

    def journal(self) -> list[dict[str, Any]]:
        """All events; a line that a crash cut is passed over."""
        path = self.folder / "journal.jsonl"
        events = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                events.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return events

    def closed(self) -> bool:
        """Whether nothing has happened since it was closed; trying failed trials again opens it."""
        events = self.journal()
        return bool(events) and events[-1]["event"] == "closed"

    def event(self, name: str, **more: Any) -> None:
        line = {"event": name, "wall": now(), "mono": time.monotonic(), **more}
        files.append_line(self.folder / "journal.jsonl", json.dumps(line, allow_nan=False))

    def store(self, slot: dict[str, Any], outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Keep the outcomes of one slot's members, as one record for each trial; the records."""
        whole = gather.slot(slot["trials"], [*outcomes, *self._lost(slot, outcomes)])
        records = [self._store_trial(outcome) for outcome in whole]
        statuses = {record["trial"]: record["status"] for record in records}
        self.event("slot_finished", slot=slot["slot"], trials=statuses)
        return records

    def _lost(self, slot: dict[str, Any], outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Outcomes of members whose host has given none."""
        told = {(o["record"]["trial"], o["record"]["member"]["host"]) for o in outcomes}
        data = self.document["dataset"] or {}
        found = []
        for trial in slot["trials"]:
            order = {**trial, "run": self.document["run"], **_place(slot)}
            base = {**record.base(order, self.document["image"], data), "started": now()}
            found += [
                gather.lost(base, member, "the host no longer answers")
                for member in trial["members"]
                if (trial["trial"], member["host"]) not in told
            ]
        return found

    def _store_trial(self, outcome: dict[str, Any]) -> dict[str, Any]:
        document: dict[str, Any] = outcome["record"]
        before = self.latest().get(document["trial"])
        document["attempt"] = before[0] + 1 if before else 1
        try:
            schema.validate_record(document)
        except schema.SchemaError as error:
            raise Refused(str(error)) from error
        again = f"{ATTEMPT}{document['attempt']}" if before else ""
        final = self.folder / "trials" / f"{document['trial']}{again}"
        aside = self.folder / "trials" / f".{final.name}.part"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        steps = [json.loads(line) for line in outcome["steps"].splitlines() if line]
        for name, rows in (("steps", steps), ("usage", outcome["usage"])):
            if rows:
                _write_table(aside / f"{name}.parquet", rows)
        for name in ("stdout", "stderr"):
            files.write(aside / f"{name}.log", outcome[name].encode())
        files.write_json(aside / "record.json", document)
        aside.rename(final)
        files.sync_folder(final.parent)
        return document

    def close(self) -> dict[str, float]:
        """Write the totals. `wall_s` leaves out the time between a kill and the resumption."""
        statuses, measured = list(self.statuses().values()), 0.0
        for slot in self.slots():
            measured += max(self._seconds(trial["trial"]) for trial in slot["trials"])
        totals = {
            "trials": len(statuses),
            "failed": sum(status != "ok" for status in statuses),
            "wall_s": self.wall_seconds(),
            "measured_s": measured,
        }
        if not self.closed():
            self.event("closed", **totals)
        return totals

    def _seconds(self, trial: str) -> float:
        """From launch to finish of all attempts of a trial."""
        seconds = 0.0
        for name in (trial, f"{trial}{ATTEMPT}*"):
            for path in self.folder.glob(f"trials/{name}/record.json"):
                clock = json.loads(path.read_text())["clock"]
                seconds += clock["finished"] - clock["launched"]
        return seconds

    def wall_seconds(self) -> float:
        """Seconds from the opening, or each resumption, to its last event, added up."""
        wall, begin, last = 0.0, 0.0, 0.0
        for event in self.journal():
            if event["event"] in ("opened", "resumed"):
                wall += last - begin
                begin = event["mono"]
            last = event["mono"]
        return wall + (time.monotonic() if not self.closed() else last) - begin

    def seconds_left(self, estimates: dict[str, float]) -> float:
        """Time left: the median so far of a slot's cell, or its estimate scaled by what was seen.

        `estimates` maps a cell to the seconds that the plan assumed for it.
        """
        seen = self._durations()
        ratios = [
            statistics.median(times) / estimates[cell]
            for cell, times in seen.items()
            if estimates.get(cell)
        ]
        scale = statistics.median(ratios) if ratios else 1.0
        left = 0.0
        for slot in self.pending():
            cell = slot["trials"][0]["cell"]
            left += statistics.median(seen[cell]) if cell in seen else estimates[cell] * scale
        return left

    def _durations(self) -> dict[str, list[float]]:
        """Seconds that each finished slot took, by the cell of its first trial."""
        cells = {slot["slot"]: slot["trials"][0]["cell"] for slot in self.slots()}
        begun: dict[str, float] = {}
        seen: dict[str, list[float]] = {}
        for event in self.journal():
            if event["event"] == "slot_started":
                begun[event["slot"]] = event["mono"]
            elif event["event"] == "slot_finished" and event["slot"] in begun:
                seen.setdefault(cells[event["slot"]], []).append(
                    event["mono"] - begun[event["slot"]]
                )
        return seen


def _cause(folder: Path) -> str:
    """Why a trial failed; '' where it did not."""
    return str((json.loads((folder / "record.json").read_text())["reason"] or {}).get("cause", ""))


def _place(slot: dict[str, Any]) -> dict[str, Any]:
    return {key: slot[key] for key in ("slot", "hosts")}


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    # Half a second to import, which the stages before the first record need not pay.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink, compression="zstd")
    files.write(path, sink.getvalue().to_pybytes())
