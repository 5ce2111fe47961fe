"""The results folder: atomic, append-only, resumable, and nobody else's."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from strata import files, members, results, units
from strata.errors import Refused

LEVELS = {
    **{"substrate": "vm", "runtime": "native", "network": "host", "workload": "spin"},
    **{"placement": "spread", "distribution": "none"},
}


def trial(number: int) -> dict[str, Any]:
    rest = {"cell": f"c{number}", "repetition": 1, "role": "measured", "levels": LEVELS}
    return {"trial": f"c{number}-r1", **rest, "members": members.roster(1, 0, ["here"])}


SLOTS = [
    {"slot": f"s{number}", "block": "b1", "hosts": ["here"], "trials": [trial(number)]}
    for number in (1, 2)
]
RUN = {
    **{"run": "x-1", "name": "x", "experiment": {}, "experiment_digest": "e", "seed": 1},
    **{"plan_digest": "p", "testbed": "local", "hosts": {"here": {"substrate": "vm"}}},
    **{"image": {"kind": "rootfs", "digest": "d"}, "dataset": None, "baseline": {}, "factors": []},
    **{"strata": {"version": "0", "commit": "c"}, "demonstration": False, "left_out": []},
}


def outcome(number: int, status: str = "ok") -> dict[str, Any]:
    record = {
        **{"schema": 1, "run": "x-1", "slot": f"s{number}", "hosts": ["here"]},
        **{key: value for key, value in trial(number).items() if key != "members"},
        **{"member": {"role": "worker", "index": 0, "host": "here"}, "members": []},
        **{"platform": "vm/native/host", "status": status, "started": "2026-01-01T00:00:00Z"},
        **{"reason": None, "image": {"kind": "rootfs", "digest": "d"}, "dataset": None},
        **{"clock": {"launched": 1.0, "finished": 3.0}, "metrics": {}, "phases": {}, "flags": []},
        **{"drift": [], "workload": {}},
    }
    step = json.dumps({"step": 1, "loss": None})
    return {"record": record, "steps": step, "usage": [{"mono": 1.0}], "stdout": "o", "stderr": "e"}


MEMBER = {"member": {"role": "worker", "index": 0, "host": "here"}}


@pytest.fixture
def run(tmp_path: Path) -> results.Run:
    plan = {"slots": SLOTS, "estimate": {"seconds": 1.0, "bytes": 1.0}}
    return results.Run.create(tmp_path / "x-1", RUN, plan, {"here": {"cpu.model": "m"}})


def test_slots_without_a_record_are_pending(run: results.Run) -> None:
    assert [slot["slot"] for slot in run.pending()] == ["s1", "s2"]
    run.store(SLOTS[0], [outcome(1)])
    assert [slot["slot"] for slot in run.pending()] == ["s2"]
    run.store(SLOTS[1], [outcome(2, "failed")])
    assert run.pending() == []
    assert run.references() == {"here": {"cpu.model": "m"}}


def test_a_record_is_never_replaced(run: results.Run) -> None:
    run.store(SLOTS[0], [outcome(1)])
    run.store(SLOTS[0], [outcome(1, "failed")])
    assert json.loads((run.folder / "trials/c1-r1/record.json").read_text())["status"] == "ok"
    again = json.loads((run.folder / "trials/c1-r1.a2/record.json").read_text())
    assert (again["status"], again["attempt"]) == ("failed", 2)
    assert run.done() == {"c1-r1"}


def test_a_failed_trial_is_tried_again_for_the_declared_causes_only(run: results.Run) -> None:
    failed = outcome(1, "failed")
    failed["record"]["reason"] = {"cause": "runtime_lost", "message": "m"}
    run.store(SLOTS[0], [failed])
    run.store(SLOTS[1], [outcome(2)])
    assert run.pending() == run.pending(["exit"], 2) == run.pending(["runtime_lost"], 1) == []
    assert [slot["slot"] for slot in run.pending(["runtime_lost"], 2)] == ["s1"]
    run.store(SLOTS[0], [copy.deepcopy(failed) | {"record": {**failed["record"], **MEMBER}}])
    assert run.pending(["runtime_lost"], 2) == []
    assert [slot["slot"] for slot in run.pending(["runtime_lost"], 3)] == ["s1"]
    totals = run.close()
    assert (totals["trials"], totals["failed"], totals["measured_s"]) == (2, 1, 6.0)


def test_a_host_that_gives_no_answer_is_a_record(run: results.Run) -> None:
    (record,) = run.store(SLOTS[0], [])
    assert record["reason"] == {"cause": "host_lost", "message": "here: the host no longer answers"}
    assert run.done() == {"c1-r1"}


def test_a_record_that_is_none_is_not_written(run: results.Run) -> None:
    bad = copy.deepcopy(outcome(1))
    bad["record"]["metrics"] = {"throughput": {"value": float("nan"), "unit": "images/s"}}
    with pytest.raises(Refused, match="throughput"):
        run.store(SLOTS[0], [bad])
    assert run.done() == set()


def test_what_a_kill_left_half_is_passed_over(run: results.Run) -> None:
    run.store(SLOTS[0], [outcome(1)])
    (run.folder / "trials" / ".c2-r1.part").mkdir()
    with (run.folder / "journal.jsonl").open("a") as journal:
        journal.write('{"event": "slot_fin')
    again = results.Run(run.folder)
    assert again.done() == {"c1-r1"}
    again.event("resumed")
    assert [event["event"] for event in again.journal()] == ["opened", "slot_finished", "resumed"]
    again.store(SLOTS[1], [outcome(2)])
    assert again.done() == {"c1-r1", "c2-r1"}


def test_totals(run: results.Run) -> None:
    run.store(SLOTS[0], [outcome(1)])
    run.store(SLOTS[1], [outcome(2, "failed")])
    totals = run.close()
    assert (totals["trials"], totals["failed"], totals["measured_s"]) == (2, 1, 4.0)
    assert run.closed()
    run.close()
    assert sum(event["event"] == "closed" for event in run.journal()) == 1


def test_the_newest_unfinished_run_of_this_plan_is_resumed(run: results.Run) -> None:
    root = run.folder.parent
    assert results.choose(root, "x", "p") == ("x-1", True)
    assert results.choose(root, "x", "other")[1] is False
    run.close()
    assert results.choose(root, "x", "p")[1] is False


def test_the_folder_of_another_experiment_is_refused(run: results.Run) -> None:
    root = run.folder.parent
    assert results.choose(root, "x", "p", "x-1") == ("x-1", True)
    assert results.choose(root, "x", "p", "new") == ("new", False)
    with pytest.raises(Refused, match="results of another experiment"):
        results.choose(root, "y", "q", "x-1")


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cannot be read"), ('{"schema": 99}', "newer Strata"), ('{"schema": 1}', "damaged")],
)
def test_an_unreadable_or_newer_schema_is_refused(run: results.Run, text: str, words: str) -> None:
    (run.folder / "run.json").write_text(text)
    with pytest.raises(Refused, match=words):
        results.Run(run.folder)


def test_time_left_follows_what_was_seen(run: results.Run) -> None:
    assert run.seconds_left({"c1": 10.0, "c2": 20.0}) == 30.0
    run.event("slot_started", slot="s1")
    run.store(SLOTS[0], [outcome(1)])
    assert run.seconds_left({"c1": 10.0, "c2": 20.0}) < 1.0


def test_a_write_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    files.write_json(path, {"a": 1})

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        files.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"), [(90, 90.0), ("90s", 90.0), ("15m", 900.0), ("2h", 7200.0), ("1d", 86400.0)]
)
def test_durations(text: str | int, value: float) -> None:
    assert units.seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [(512, 512), ("1K", 1024), ("8G", 8 * 2**30), ("1.5GiB", 1610612736)]
)
def test_sizes(text: str | int, value: int) -> None:
    assert units.size(text) == value
    with pytest.raises(Refused):
        units.size("much")


def test_times_for_people() -> None:
    shown = [units.duration(value) for value in (42, 200, 1500, 7500)]
    assert shown == ["42 s", "3 min 20 s", "25 min", "2 h 5 min"]
