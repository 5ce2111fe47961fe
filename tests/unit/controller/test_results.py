"""The results folder: atomic, append-only, resumable, and nobody else's."""

from __future__ import annotations

import base64
import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from strata import files, units
from strata.errors import Refused

from action_plugins import strata_report, strata_run_folder
from analysis import report
from controller import metrics, results
from tests.conftest import lone

LEVELS = {
    **{"substrate": "vm", "runtime": "native", "network": "host", "workload": "spin"},
    **{"placement": "spread", "distribution": "none"},
}


def trial(number: int) -> dict[str, Any]:
    rest = {"cell": f"c{number}", "repetition": 1, "role": "measured", "family": "tools"}
    more = {"levels": LEVELS, "members": lone("here"), "scratch": False, "side": 0}
    return {"trial": f"c{number}-r1", **rest, **more}


SLOTS = [
    {
        **{
            "slot": f"s{number}",
            "block": "b1",
            "setting": "",
            "round": 1,
            "position": number,
            "rebuild": 0,
        },
        **{"hosts": ["here"], "trials": [trial(number)]},
    }
    for number in (1, 2)
]
PLAN = {"slots": SLOTS, "estimate": {"seconds": 1.0, "bytes": 1.0}}
IMAGE = {"family": "tools", "kind": "rootfs", "digest": "d"}
RUN = {
    **{"run": "x-1", "name": "x", "experiment": {}, "experiment_digest": "e", "seed": 1},
    **{"plan_digest": "p", "testbed": "local", "hosts": {"here": {"substrate": "vm"}}},
    **{"images": [IMAGE], "dataset": None, "baseline": {}, "factors": []},
    **{"strata": {"version": "0", "commit": "c"}, "demonstration": False, "left_out": []},
    "workloads": metrics.declared(["spin"]),
}


HIDDEN = ("members", "family", "scratch", "side")  # of a planned trial, from its record


def outcome(number: int, status: str = "ok") -> dict[str, Any]:
    record = {
        **{"schema": 1, "run": "x-1", "slot": f"s{number}", "hosts": ["here"]},
        **{k: v for k, v in trial(number).items() if k not in HIDDEN},
        **{"member": {"role": "worker", "index": 0, "host": "here"}, "members": []},
        **{"platform": "vm/native/host", "status": status, "started": "2026-01-01T00:00:00Z"},
        **{"reason": None, "image": IMAGE, "dataset": None},
        **{"clock": {"launched": 1.0, "finished": 3.0}, "metrics": {}, "phases": {}, "flags": []},
        **{"drift": [], "workload": {}},
    }
    step = json.dumps({"step": 1, "loss": None})
    left = {"steps": step, "trace": "", "stdout": "o", "stderr": "e"}
    return {"record": record, "usage": [{"mono": 1.0}], **left}


MEMBER = {"member": {"role": "worker", "index": 0, "host": "here"}}


@pytest.fixture
def run(tmp_path: Path) -> results.Run:
    return results.Run.create(tmp_path / "x-1", RUN, PLAN, {"here": {"cpu.model": "m"}})


def test_slots_without_a_record_are_pending(run: results.Run) -> None:
    assert [slot["slot"] for slot in run.pending()] == ["s1", "s2"]
    run.store(SLOTS[0], [outcome(1)])
    assert [slot["slot"] for slot in run.pending()] == ["s2"]
    run.store(SLOTS[1], [outcome(2, "failed")])
    assert run.pending() == []
    assert run.references() == {"here": {"cpu.model": "m"}}


def test_a_record_says_where_it_stands_in_the_plan(run: results.Run) -> None:
    (record,) = run.store(SLOTS[1], [outcome(2)])
    assert (record["block"], record["round"], record["position"]) == ("b1", 1, 2)


def test_a_trace_is_kept_with_its_trial(run: results.Run) -> None:
    run.store(SLOTS[0], [outcome(1) | {"trace": base64.b64encode(b"\x1f\x8b").decode()}])
    run.store(SLOTS[1], [outcome(2)])
    assert [path.parent.name for path in run.folder.glob("trials/*/trace.*")] == ["c1-r1"]
    assert (run.folder / "trials/c1-r1/trace.xplane.pb.gz").read_bytes() == b"\x1f\x8b"


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


def measure(run: results.Run, *statuses: str) -> None:
    """Both slots, and the totals."""
    for number, status in enumerate(statuses or ("ok", "ok"), 1):
        run.store(SLOTS[number - 1], [outcome(number, status)])
    run.close()


def stand(run: results.Run) -> None:
    """A report, by hand."""
    (run.folder / "report").mkdir(exist_ok=True)
    (run.folder / "report/index.html").write_text("")


def test_the_newest_unfinished_run_of_this_plan_is_resumed(run: results.Run) -> None:
    root = run.folder.parent
    assert results.choose(root, "x", "p") == ("x-1", True, [])
    assert results.choose(root, "x", "other")[1:] == (False, [])
    later = results.Run.create(root / "x-0", {**RUN, "run": "x-0"}, PLAN, {})
    assert results.choose(root, "x", "p").name == "x-0", "by its date, and not by its name"
    for each in (run, later):
        measure(each)
        stand(each)
        each.reported()
    assert results.choose(root, "x", "p").there is False


def test_a_run_is_finished_when_its_report_stands(run: results.Run) -> None:
    root = run.folder.parent
    stand(run)
    run.reported()
    assert not run.finished(), "an early report, by hand, is no end"
    measure(run)
    assert not run.finished(), "killed between the totals and the report"
    assert results.choose(root, "x", "p") == ("x-1", True, [])
    assert run.pending() == []
    stand(run)
    assert not run.finished(), "killed between the report and the note, or an older report"
    run.reported()
    run.reported()
    assert run.finished()
    assert sum(event["event"] == "reported" for event in run.journal()) == 1
    run.event("resumed")
    assert not run.finished(), "tried again"
    run.close()
    assert not run.finished(), "the report is that of before"
    run.reported()
    shutil.rmtree(run.folder / "report")
    assert not run.finished()


def test_a_run_of_before_is_finished_when_it_has_a_report(run: results.Run) -> None:
    measure(run)
    journal = run.folder / "journal.jsonl"
    journal.write_text(journal.read_text().replace(', "report": "due"', ""))
    assert not run.finished()
    stand(run)
    assert run.finished()


def test_the_report_is_not_part_of_the_time_that_a_run_took(run: results.Run) -> None:
    measure(run)
    stand(run)
    before = run.wall_seconds()
    line = {"event": "reported", "wall": results.now(), "mono": 9e9}
    files.append_line(run.folder / "journal.jsonl", json.dumps(line))
    assert run.wall_seconds() == before


def test_the_folder_of_another_experiment_is_refused(run: results.Run) -> None:
    root = run.folder.parent
    assert results.choose(root, "x", "p", "x-1") == ("x-1", True, [])
    assert results.choose(root, "x", "p", "new") == ("new", False, [])
    with pytest.raises(Refused, match="results of another experiment"):
        results.choose(root, "y", "q", "x-1")


@pytest.mark.parametrize(
    "name",
    ["/tmp/x", "a/b", "..", ".", ".hidden", "-e", "", "a b", "a\n", "x" * 129, "campaigns", "\x1b"],
)
def test_the_name_of_a_run_is_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="the name of a run is a name"):
        results.check_name(name)
    if name:
        with pytest.raises(Refused, match="the name of a run is a name"):
            results.choose(tmp_path, "x", "p", name)


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "a b", "\x1b[2J"])
def test_the_name_of_a_host_is_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="a host's name is at most"):
        results.Run.create(tmp_path / "x-1", RUN, PLAN, {name: {}})
    assert list(tmp_path.iterdir()) == []


def test_an_address_is_the_name_of_a_host() -> None:
    for name in ("node-1.example.org", "fe80::1%eth0", "::1", "n" * 200):
        results.check_host(name)


def asked(digest: str) -> dict[str, Any]:
    """What the playbook gives to open a run."""
    plan = {
        **{"run": "x-1", "digest": digest, "experiment": {"name": "x", "seed": 1}, **PLAN},
        **{"experiment_digest": "e", "hosts": RUN["hosts"], "baseline": {}, "factors": []},
        **{"left_out": [], "confounds": [], "families": ["tools"]},
    }
    rest = {"images": RUN["images"], "dataset": {}, "testbed": "local", "hosts": {}}
    rest |= {"built": {}, "offers": {}, "lives": []}
    plan["experiment"]["demonstration"] = False
    return {"plan": plan, "retry": [], "attempts": 1, **rest}


def acting(module: Any, **state: str) -> Callable[[Path, dict[str, Any]], dict[str, Any]]:
    """What a module does with the arguments that it is given, less Ansible."""
    action = module.ActionModule.__new__(module.ActionModule)
    return lambda folder, given: dict(action.act(folder, {**given, **state}))


opened = acting(strata_run_folder, state="opened")
verified = acting(strata_run_folder, state="verified")
reported = acting(strata_report)


def test_a_run_is_only_ever_opened_collected_and_reported_for_its_own_plan(tmp_path: Path) -> None:
    """The same folder by two paths: the second experiment ran nothing and told the first's."""
    folder = tmp_path / "x-1"
    (block,) = opened(folder, asked("p"))["blocks"]
    assert (block["block"], block["slots"]) == ("b1", SLOTS)
    assert opened(folder, asked("p"))["changed"] is False
    for state in (opened, verified, reported):
        with pytest.raises(Refused, match="results of another experiment"):
            state(folder, asked("q"))


@pytest.mark.parametrize(
    ("other", "part"),
    [
        ({"images": [{**IMAGE, "digest": "new"}]}, "image of tools"),
        ({"dataset": {"name": "d", "digest": "new", "key": "d"}}, "dataset"),
    ],
)
def test_what_is_left_of_a_run_is_measured_with_the_same_bits_or_not_at_all(
    tmp_path: Path, other: dict[str, Any], part: str
) -> None:
    given, folder = asked("p"), tmp_path / "x-1"
    opened(folder, given)
    before = results.Run(folder).journal()
    with pytest.raises(Refused, match=f"was opened with another {part}; .* cannot be compared"):
        opened(folder, {**given, **other})
    assert results.Run(folder).journal() == before
    assert opened(folder, given)["blocks"]


def test_the_same_command_reports_what_is_measured_and_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, folder = asked("p"), tmp_path / "x-1"
    opened(folder, given)
    measure(results.Run(folder))

    def full(_: Path) -> list[str]:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(report, "make", full)
        with pytest.raises(OSError, match="no space"):
            reported(folder, given)
    before = results.Run(folder).journal()
    assert results.choose(tmp_path, "x", "p") == ("x-1", True, [])
    # Another image is no matter now: no trial is run with it.
    other = {**given, "images": [{**IMAGE, "digest": "new"}]}
    assert opened(folder, other)["blocks"] == []
    assert results.Run(folder).journal() == before
    results.Run(folder).close()
    verified(folder, given)
    assert any("report: " in line for line in reported(folder, given)["progress"])
    assert results.Run(folder).finished()
    assert results.choose(tmp_path, "x", "p").there is False


def test_what_was_killed_after_its_last_record_gets_its_totals(tmp_path: Path) -> None:
    given, folder = asked("p"), tmp_path / "x-1"
    opened(folder, given)
    for number in (1, 2):
        results.Run(folder).store(SLOTS[number - 1], [outcome(number)])
    assert opened(folder, given)["blocks"] == []
    results.Run(folder).close()
    events = [event["event"] for event in results.Run(folder).journal()]
    assert events[-2:] == ["resumed", "closed"]


def test_a_run_in_which_nothing_went_well_is_reported_finished_and_refused(tmp_path: Path) -> None:
    given, folder = asked("p"), tmp_path / "x-1"
    opened(folder, given)
    measure(results.Run(folder), "failed", "failed")
    with pytest.raises(Refused, match="has a measured trial that ended well"):
        reported(folder, given)
    assert results.Run(folder).finished()


def test_a_new_run_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = files.write_json

    def killed(path: Path, value: Any) -> None:
        if path.name == "run.json":
            raise KeyboardInterrupt
        write(path, value)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            results.Run.create(tmp_path / "x-1", RUN, PLAN, {})
    assert results.choose(tmp_path, "x", "p", "x-1") == ("x-1", False, [])
    results.Run.create(tmp_path / "x-1", RUN, PLAN, {})
    assert [path.name for path in tmp_path.iterdir()] == ["x-1"], "what was half made has gone"
    with pytest.raises(OSError):
        results.Run.create(tmp_path / "x-1", RUN, PLAN, {})


def text(content: str | bytes) -> Callable[[Path], Any]:
    def write(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def no_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.symlink_to(path.parent.name)


DAMAGES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "cut": ("run.json", text('{"schema": 1, "ru')),
    "binary": ("run.json", text(b"\xff\xfe\x00")),
    "empty": ("run.json", text("")),
    "a list": ("run.json", text("[]")),
    "deep": ("run.json", text("[" * 100_000)),
    "a newer schema": ("run.json", text('{"schema": 99}')),
    "another run's": (
        "run.json",
        text(json.dumps({"schema": 1, **RUN, "run": "y", "created": ""})),
    ),
    "no run.json": ("run.json", Path.unlink),
    "a pipe": ("run.json", pipe),
    "a link loop": ("run.json", loop),
    "a folder that is a link loop": ("run.json", no_folder),
    "no plan": ("plan.json", Path.unlink),
    "a plan out of the folder": (
        "plan.json",
        text(json.dumps({"schema": 1, **PLAN}).replace("c1-r1", "../../x")),
    ),
    "a record that is cut": ("trials/c1-r1/record.json", text("{")),
    "a record that is a pipe": ("trials/c1-r1/record.json", pipe),
    "a journal of no events": ("journal.jsonl", text("[]\n")),
    "a host's file of another host": (
        "hosts/here.json",
        text('{"schema": 1, "host": "../x", "captured": "", "values": {}}'),
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_named_and_blocks_no_new_one(run: results.Run, damage: str) -> None:
    run.store(SLOTS[0], [outcome(1)])
    place, do = DAMAGES[damage]
    do(run.folder / place)
    chosen = results.choose(run.folder.parent, "x", "p")
    assert not chosen.there and chosen.name != "x-1"
    assert len(chosen.passed) == 1
    assert chosen.passed[0].startswith("x-1 is passed over, and left as it is: ")
    with pytest.raises(Refused):
        results.choose(run.folder.parent, "x", "p", "x-1")
        results.Run(run.folder).check()


def test_what_is_no_folder_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x-pipe")
    (tmp_path / "x-file").write_text("")
    (tmp_path / "x-empty").mkdir()
    (tmp_path / "other").mkdir()
    chosen = results.choose(tmp_path, "x", "p")
    assert [line.split()[0] for line in chosen.passed] == ["x-empty", "x-file", "x-pipe"]
    with pytest.raises(Refused, match="the folder of results can be read"):
        results.choose(tmp_path / "x-file", "x", "p")


def test_a_record_that_was_copied_elsewhere_is_refused_and_not_followed(run: results.Run) -> None:
    run.store(SLOTS[0], [outcome(1)])
    trials = run.folder / "trials"
    shutil.copytree(trials / "c1-r1", trials / "c1-r1.a2")
    with pytest.raises(Refused, match=r"c1-r1\.a2/record\.json is not where it belongs"):
        run.check_records()
    (trials / "c1-r1.a2").rename(trials / "c1-r1.azz")
    assert run.latest()["c1-r1"][0] == 1
    with pytest.raises(Refused, match=r"move .*azz away, and run the same command again"):
        run.check_records()


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
