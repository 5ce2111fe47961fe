"""The results folder of a run: opened, filled trial by trial, resumed, closed.

Runs on the controller only (pyarrow). The layout is in docs/results.md. A trial's folder is
filled aside and renamed into place, so that it is there whole or not at all; the journal
is appended and synced. Whatever instant the power goes, what is there is right, and the
slots without a record are what is left to do.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import statistics
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from strata import files
from strata.errors import Refused
from strata.trial import record

from schema import documents as schema
from schema import lock, names

from . import disturbed, merge

# Not for a run: the folder of all campaigns' states.
CAMPAIGNS = "campaigns"
# Where a slot stands in its plan.
TURN = ("block", "round", "position")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """A document that the analysis cannot read, refused."""
    try:
        yield
    except schema.SchemaError as error:
        raise Refused(str(error)) from error


def check_name(run: str) -> None:
    """Raise Refused unless a run can be called so."""
    if not names.is_name(run) or run == CAMPAIGNS:
        raise Refused(
            f"the name of a run is a name, and not {CAMPAIGNS!r}: {names.RULE}",
            example="-e strata_run=first-try",
            given=repr(run[:200]),
            then="choose another name; -e strata_results=FOLDER says where results are",
        )


class Choice(NamedTuple):
    """The run to execute, whether it is there already, and a line for each that was passed over."""

    name: str
    there: bool
    passed: list[str]


def choose(results: Path, experiment: str, plan_digest: str, wanted: str = "") -> Choice:
    """The run to execute: the wanted one, or the newest unfinished one of this plan, or a new one.

    Raises Refused when the wanted one cannot be a run's name, belongs to another plan or cannot
    be read. What cannot be read and was not asked for is passed over, and named.
    """
    if wanted:
        check_name(wanted)
        folder = results / wanted
        there = folder.is_symlink() or folder.exists()
        if there:
            Run(folder).check_plan(experiment, plan_digest)
        return Choice(wanted, there, [])
    found, passed = [], []
    for folder in _folders(results, experiment):
        try:
            run = Run(folder)
            if run.plan_digest == plan_digest and not run.finished():
                run.check()
                found.append(run)
        except Refused as refused:
            passed.append(f"{folder.name} is passed over, and left as it is: {refused.rule}")
    if found:
        newest = max(found, key=lambda run: str(run.document["created"]))
        return Choice(newest.folder.name, True, passed)
    return Choice(_new_name(results, experiment), False, passed)


def _folders(results: Path, experiment: str) -> list[Path]:
    """All that is called as runs of an experiment are. Raises Refused."""
    try:
        every = sorted(results.iterdir()) if results.exists() else []
    except OSError as error:
        raise Refused(
            "the folder of results can be read",
            example="-e strata_results=/srv/results",
            given=str(error),
            then="see to its rights, or choose another folder",
        ) from error
    return [path for path in every if path.name.startswith(f"{experiment}-")]


def _new_name(results: Path, experiment: str) -> str:
    """A name that nothing has yet."""
    name = f"{experiment}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    check_name(name)
    later = (f"{name}-{number}" for number in range(2, 1000))
    taken = {path.name for path in _folders(results, experiment)}
    return next(each for each in (name, *later) if each not in taken)


class Run:
    """A run folder. Raises Refused when it is no run, of a newer schema, or called otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with refusing():
            self.document: dict[str, Any] = schema.read_run(folder).model_dump(
                mode="json", by_alias=True
            )
        if self.document["run"] != folder.name:
            raise Refused(
                f"{folder} holds a run of another name: {self.document['run']!r}",
                then="give the folder its name back, or choose another one: -e strata_run=NAME",
            )

    @classmethod
    def create(
        cls,
        folder: Path,
        run: dict[str, Any],
        plan: dict[str, Any],
        hosts: dict[str, Any],
        locked: dict[str, Any] | None = None,
    ) -> Run:
        """A new run folder, filled aside and renamed. Raises Refused; then nothing is there."""
        check_name(folder.name)
        document = {"schema": schema.SCHEMA, "created": now(), **run}
        planned = {"schema": schema.SCHEMA, **plan}
        with refusing():
            schema.validate_run(document)
            schema.validate_plan(planned)
        for host in hosts:
            check_host(host)
        # Named by the plan: what a kill leaves half made goes when the same command is given again.
        aside = folder.parent / f".{document['plan_digest'][:12]}.part"
        if aside.exists():
            shutil.rmtree(aside)
        for part in (aside / "trials", aside / "hosts"):
            part.mkdir(parents=True)
        for name, values in hosts.items():
            found = {"schema": schema.SCHEMA, "host": name, "captured": now(), "values": values}
            files.write_json(aside / "hosts" / f"{name}.json", found)
        if locked:
            files.write_json(aside / lock.FILE, locked)
        files.write_json(aside / "plan.json", planned)
        files.write_json(aside / "run.json", document)
        aside.rename(folder)
        files.sync_folder(folder.parent)
        created = cls(folder)
        created.event("opened")
        return created

    @property
    def plan_digest(self) -> str:
        return str(self.document["plan_digest"])

    def check_plan(self, experiment: str, plan_digest: str) -> None:
        """Raise Refused unless the run is of this very plan."""
        if self.plan_digest != plan_digest:
            raise Refused(
                f"{self.folder} holds the results of another experiment or testbed",
                given=f"{self.document['name']}, plan {self.plan_digest[:12]}, "
                f"and not {experiment}, plan {plan_digest[:12]}",
                then="choose another name for this run: -e strata_run=NAME",
            )

    def check(self) -> None:
        """Read every document. Raises Refused naming the first that cannot be read."""
        self.slots()
        self.references()
        self.journal()
        self.check_records()

    def slots(self) -> list[dict[str, Any]]:
        """All slots of the plan, in its order. Raises Refused."""
        return self._slots

    @cached_property
    def _slots(self) -> list[dict[str, Any]]:
        with refusing():
            return list(schema.read_plan(self.folder).model_dump(mode="json")["slots"])

    def latest(self) -> dict[str, tuple[int, Path]]:
        """Each trial's last attempt, from 1, and its folder. Earlier ones stay where they are.

        A folder that is named otherwise is none of a trial.
        """
        with refusing():
            folders = {path.name: path for path in schema.trial_folders(self.folder)}
        found: dict[str, tuple[int, Path]] = {}
        for name, path in folders.items():
            trial, attempt = schema.attempt_of(name) or ("", 0)
            if attempt > found.get(trial, (0, path))[0]:
                found[trial] = (attempt, path)
        return found

    def statuses(self) -> dict[str, str]:
        """How the last attempt of each trial ended. Raises Refused."""
        return {trial: _record(path).status for trial, (_, path) in self.latest().items()}

    def good(self) -> bool:
        """Whether any measured trial ended well. Raises Refused."""
        last = [_record(path) for _, path in self.latest().values()]
        return any(each.status == "ok" and each.role == "measured" for each in last)

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
        last = self.stopped
        return [
            slot
            for slot in self.slots()
            if not last or slot["round"] <= last
            if any(t["trial"] not in latest or t["trial"] in again for t in slot["trials"])
        ]

    @property
    def stopped(self) -> int:
        """The round after which the experiment's `stop` has ended it; 0 where it has not."""
        return next((int(e["round"]) for e in self.journal() if e["event"] == "stopped"), 0)

    @property
    def rule(self) -> dict[str, Any]:
        """What the experiment says of disturbed trials; nothing where it turns that off."""
        return self.document["experiment"].get("disturbed") or {}

    @cached_property
    def _pairs(self) -> list[list[dict[str, Any]]]:
        return disturbed.pairs(self.slots(), self.document["baseline"])

    def pair(self, slot: dict[str, Any]) -> list[dict[str, Any]]:
        """The slots with which a slot is compared, itself among them, in the order of the plan."""
        return next(pair for pair in self._pairs if slot["slot"] in {s["slot"] for s in pair})

    def due(self, pair: Sequence[dict[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
        """The slots of a pair that the rule wants to be run again, and which attempt that is."""
        trials = [t for slot in pair for t in disturbed.measured(slot)] if self.rule else []
        ended = {trial: self._causes(trial) for trial in trials}
        number, due = disturbed.due(pair, ended, self.rule.get("again", 0))
        # Most pairs are not due, and need no look into the journal.
        return (0, []) if due and self._given_up(pair) else (number, due)

    def _given_up(self, pair: Sequence[dict[str, Any]]) -> bool:
        """Whether there was no time to run a pair again."""
        told = (e["slots"] for e in self.journal() if e["event"] == "not_repeated")
        return any(slot["slot"] in slots for slots in told for slot in pair)

    def not_repeated(self, due: Sequence[dict[str, Any]]) -> None:
        """Note that there is no time to run these slots of a pair again."""
        self.event("not_repeated", slots=[slot["slot"] for slot in due])

    def repeats(self) -> list[list[dict[str, Any]]]:
        """Of each disturbed pair the slots that are to be run again."""
        return [due for pair in self._pairs if (due := self.due(pair)[1])] if self.rule else []

    def _causes(self, trial: str) -> dict[int, str]:
        """Why each attempt of a trial was lost, '' where it was not. Raises Refused."""
        return {number: _cause(folder) for number, folder in self._attempts(trial)}

    def _attempts(self, trial: str) -> list[tuple[int, Path]]:
        """The number and the folder of each attempt of a trial; a number may be passed over."""
        trials = self.folder / "trials"
        names = [schema.attempt_of(path.name) for path in trials.glob(f"{trial}*")]
        numbers = sorted(found[1] for found in names if found and found[0] == trial)
        folders = ((n, trials / schema.attempt_folder(trial, n)) for n in numbers)
        return [(n, folder) for n, folder in folders if (folder / "record.json").exists()]

    def to_measure(self, retry: Collection[str] = (), attempts: int = 1) -> list[dict[str, Any]]:
        """Slots that are pending, or whose pair is to be run again, in the order of the plan."""
        wanted = {slot["slot"] for slot in self.pending(retry, attempts)}
        wanted |= {slot["slot"] for due in self.repeats() for slot in due}
        return [slot for slot in self.slots() if slot["slot"] in wanted]

    def again(self, retry: Collection[str], attempts: int) -> list[dict[str, Any]]:
        """Slots of which every trial has a record, and one has failed and is to be tried again."""
        untried = {slot["slot"] for slot in self.pending()}
        return [slot for slot in self.pending(retry, attempts) if slot["slot"] not in untried]

    def unleft(self) -> dict[str, str]:
        """The block of each setting that may still be in place: begun, and not known to be left."""
        there: dict[str, str] = {}
        for event in self.journal():
            if event["event"] == "setting_begun":
                there[event["setting"]] = event["block"]
            elif event["event"] == "setting_left":
                there.pop(event["setting"], None)
        return there

    def rebuild(self) -> int:
        """The rebuild of the testbed that is in place; 0 where one was begun and not ended."""
        there = 1
        for event in self.journal():
            if event["event"] in ("rebuild_begun", "rebuilt"):
                there = event["rebuild"] if event["event"] == "rebuilt" else 0
        return there

    def failed_switches(self) -> list[dict[str, Any]]:
        """The events `setting_failed` since the run was opened, or resumed for the last time.

        A setting that was not in place any more is made again: that alone is no such failure.
        """
        events = self.journal()
        begins = [n for n, e in enumerate(events) if e["event"] in ("opened", "resumed")]
        since = events[begins[-1] if begins else 0 :]
        failed = [e for e in since if e["event"] == "setting_failed"]
        return [e for e in failed if e["stage"] != "measured"]

    def references(self) -> dict[str, dict[str, Any]]:
        """The fingerprint of each host when the run was opened. Raises Refused."""
        with refusing():
            found = [schema.read_host(p) for p in sorted((self.folder / "hosts").glob("*.json"))]
        return {host.host: host.values for host in found}

    def check_records(self) -> None:
        """Read every record. Raises Refused naming the first that cannot be read."""
        with refusing():
            schema.read_records(self.folder, str(self.document["run"]))

    def journal(self) -> list[dict[str, Any]]:
        """All events; a line that a crash cut is passed over. Raises Refused."""
        with refusing():
            found = schema.read_journal(self.folder / "journal.jsonl")
        return [event.model_dump() for event in found]

    def closed(self) -> bool:
        """Whether nothing was measured since the totals; trying failed trials again opens it."""
        events = self.journal()
        return bool(events) and events[-1]["event"] in ("closed", "reported")

    def finished(self) -> bool:
        """Whether its report stands, and is of all that was measured."""
        events = self.journal()
        last = events[-1] if events else {"event": ""}
        # Before schema 2 a report was not noted, and none was said to be due.
        old = last["event"] == "closed" and "report" not in last
        noted = old or last["event"] == "reported"
        return noted and (self.folder / "report" / "index.html").is_file()

    def reported(self) -> None:
        """Note that the report was written; that of a run that is not closed is no end of it."""
        if self.closed() and not self.finished():
            self.event("reported")

    def event(self, name: str, **more: Any) -> None:
        line = {"event": name, "wall": now(), "mono": time.monotonic(), **more}
        files.append_line(self.folder / "journal.jsonl", json.dumps(line, allow_nan=False))

    def store(self, slot: dict[str, Any], outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Keep the outcomes of one slot's members, as one record for each trial; the records."""
        whole = merge.slot(
            slot["trials"],
            [*outcomes, *self._lost(slot, outcomes)],
            self.document["workloads"],
        )
        number, due = self.due(self.pair(slot))
        attempt = number if slot["slot"] in {one["slot"] for one in due} else 1
        for outcome in whole:
            outcome["record"] |= {key: slot[key] for key in TURN if key in slot}
            disturbed.judge(outcome["record"], self.rule)
        records = [self._store_trial(outcome, attempt) for outcome in whole]
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
            image = next(i for i in self.document["images"] if i["family"] == trial["family"])
            base = {**record.base(order, image, data), "started": now()}
            found += [
                merge.lost(base, member, "the host no longer answers")
                for member in trial["members"]
                if (trial["trial"], member["host"]) not in told
            ]
        return found

    def _store_trial(self, outcome: dict[str, Any], attempt: int) -> dict[str, Any]:
        """Keep it as the attempt of that number, or the next one where it has such a one."""
        document: dict[str, Any] = outcome["record"]
        before = self.latest().get(document["trial"])
        document["attempt"] = max(attempt, before[0] + 1 if before else 1)
        with refusing():
            schema.validate_record(document)
        name = schema.attempt_folder(document["trial"], document["attempt"])
        final = self.folder / "trials" / name
        aside = self.folder / "trials" / f".{final.name}.part"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        steps = [json.loads(line) for line in outcome["steps"].splitlines() if line]
        for name, rows in (("steps", steps), ("usage", outcome["usage"])):
            if rows:
                _write_table(aside / f"{name}.parquet", rows)
        for name in ("stdout", "stderr"):
            files.write(aside / f"{name}.log", outcome[name].encode(errors="replace"))
        if outcome["trace"]:
            files.write(aside / record.TRACE, base64.b64decode(outcome["trace"]))
        files.write_json(aside / "record.json", document)
        aside.rename(final)
        files.sync_folder(final.parent)
        return document

    def close(self) -> dict[str, float]:
        """Write the totals, and that a report is due.

        `wall_s` leaves out the time between a kill and the resumption. Raises Refused where blocks
        could not be measured, since their setting could not be switched to.
        """
        self._check_switches()
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
            self.event("closed", **totals, report="due")
        return totals

    def _check_switches(self) -> None:
        failed = self.failed_switches()
        if failed:
            blocks = ", ".join(event["block"] for event in failed)
            raise Refused(
                f"every block of {self.folder.name} is measured; not measured: {blocks}",
                given="\n".join(
                    f"{e['block']}, setting {e['setting']}, {e['stage']}: {e['message']}"
                    for e in failed
                ),
                then="see to the cause, and run the same command again: it tries these again",
            )

    def _seconds(self, trial: str) -> float:
        """From launch to finish of all attempts of a trial."""
        clocks = [_record(folder).clock for _, folder in self._attempts(trial)]
        return sum(clock.finished - clock.launched for clock in clocks)

    def wall_seconds(self) -> float:
        """Seconds from the opening, or each resumption, to its last event, added up.

        Those of the report do not count.
        """
        wall, begin, last = 0.0, 0.0, 0.0
        for event in self.journal():
            if event["event"] == "reported":
                continue
            if event["event"] in ("opened", "resumed"):
                wall += last - begin
                begin = event["mono"]
            last = event["mono"]
        return wall + (time.monotonic() if not self.closed() else last) - begin

    def seconds_left(
        self, estimates: dict[str, float], more: Sequence[dict[str, Any]] = ()
    ) -> float:
        """Time left: the median so far of a slot's cell, or its estimate scaled by what was seen.

        `estimates` maps a cell to the seconds that the plan assumed for it; `more` are slots that
        are run again.
        """
        seen = self._durations()
        ratios = [
            statistics.median(times) / estimates[cell]
            for cell, times in seen.items()
            if estimates.get(cell)
        ]
        scale = statistics.median(ratios) if ratios else 1.0
        left = 0.0
        for slot in [*self.pending(), *more]:
            cell = slot["trials"][0]["cell"]
            left += statistics.median(seen[cell]) if cell in seen else estimates[cell] * scale
        return left

    def _durations(self) -> dict[str, list[float]]:
        """Seconds that each finished slot took, by the cell of its first trial."""
        cells = {slot["slot"]: slot["trials"][0]["cell"] for slot in self.slots()}
        begun: dict[str, float] = {}
        seen: dict[str, list[float]] = {}
        for event in self.journal():
            slot = event.get("slot")
            if event["event"] == "slot_started":
                begun[str(slot)] = event["mono"]
            elif event["event"] == "slot_finished" and slot in begun and slot in cells:
                seen.setdefault(cells[slot], []).append(event["mono"] - begun[slot])
        return seen


def check_host(name: str) -> None:
    """Raise Refused unless a host can be called so."""
    if not names.is_host(name):
        raise Refused(names.HOST_RULE, example="node1.example.org", given=repr(name[:200]))


def _record(folder: Path) -> schema.Record:
    """The record in a trial's folder. Raises Refused."""
    with refusing():
        return schema.read_record(folder / "record.json")


def _cause(folder: Path) -> str:
    """Why a trial failed; '' where it did not."""
    reason = _record(folder).reason
    return reason.cause if reason else ""


def _place(slot: dict[str, Any]) -> dict[str, Any]:
    return {key: slot[key] for key in ("slot", "hosts")}


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    # Half a second to import, which the stages before the first record need not pay.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink, compression="zstd")
    files.write(path, sink.getvalue().to_pybytes())
