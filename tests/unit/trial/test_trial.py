"""The sequence of a trial, with a runtime that only notes what is asked of it."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from strata import runtimes
from strata.errors import Refused
from strata.host import exclusive, lease
from strata.host.counters import Counters, Totals
from strata.host.owned import MARKER, Folder
from strata.host.sampler import Sample, Spent
from strata.runtimes.base import Ended, RuntimeLostError, Spec, StartError
from strata.trial import disturbance, record, reference
from strata.trial import slot as trial

from tests.conftest import lone

LEVELS = {
    **{"substrate": "vm", "runtime": "fake", "network": "host", "label": "", "workload": "spin"},
    **{"cpus": "0-1,3", "memory": None, "numa": None, "gpus": None, "quota": None},
    **{"distribution": "none", "workers": 1, "servers": 0, "placement": "spread", "beside": None},
    **{"steps": 2, "warmup_steps": 1},
}


NO_SCALARS = '{"scalars": {}, "marks": {}'


class Fake:
    """A runtime whose program does what `script` says; `calls` is what was asked of it."""

    def __init__(self, spec: Spec, script: dict[str, Any]) -> None:
        self.spec, self.script, self.calls = spec, script, []  # type: ignore[var-annotated]
        self.config = json.loads((spec.spool / "in/config.json").read_text())

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if name in self.script.get("raises", {}):
            raise self.script["raises"][name]

    def prepare(self) -> None:
        self._note("prepare")

    def launch(self) -> None:
        self._note("launch")
        for name, text in self.script.get("out", {}).items():
            (self.spec.spool / "out" / name).write_text(text)

    def wait(self, seconds: float) -> Ended | None:
        self._note("wait")
        if self.script.get("hangs"):
            time.sleep(min(seconds, 0.01))
            return None
        ended: Ended = self.script.get("ended", Ended(0))
        return ended

    def usage(self) -> Counters:
        return Counters(cpu=1.5, memory=10, memory_peak=20)

    def phases(self) -> dict[str, float]:
        return {}

    def signal(self, number: int) -> None:
        self._note(f"signal {number}")

    def logs(self) -> tuple[str, str]:
        self._note("logs")
        return "said", "complained"

    def remove(self) -> None:
        self._note("remove")


def step(number: int, phase: str) -> str:
    times = {"input_s": 0.25, "compute_s": 0.75, "duration_s": 1.0}
    rest = {"step": number, "phase": phase, "items": 8, "loss": 1.0, "mono": float(number)}
    return json.dumps({**rest, **times})


def result() -> str:
    begin = time.monotonic()
    marks = {"first_step_begin": begin, "probe_begin": begin, "probe_end": begin}
    scalars = {"throughput": {"value": 8.0, "unit": "images/s"}}
    return json.dumps({"schema": 1, "scalars": scalars, "marks": marks, "flags": []})


@pytest.fixture(autouse=True)
def quiet_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Folder(tmp_path, "state").claim()
    monkeypatch.setattr(lease, "folder", lambda: tmp_path / "lock")
    monkeypatch.setattr(exclusive, "settle", lambda _: [])
    monkeypatch.setattr(runtimes, "leftovers", list)
    monkeypatch.setattr(reference, "SECONDS", 0.001)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[dict[str, Any], Fake | None]]:
    def start(
        script: dict[str, Any], gone: Callable[[], bool] = lambda: False, limit: float = 60
    ) -> tuple[dict[str, Any], Fake | None]:
        asked = {
            **{"trial": "c-r1", "cell": "c", "repetition": 1, "role": "measured"},
            **{"family": "tools", "levels": LEVELS | script.get("levels", {})},
            **{"members": lone("here")},
        }
        slot = {"run": "r", "slot": "s0001", "hosts": ["here"], "trials": [asked]}
        images = {"tools": {"family": "tools", "kind": "rootfs", "digest": "d", "rootfs": "/x"}}
        order = trial.Order(slot, "here", images, {}, {}, limit, tmp_path)
        made: list[Fake] = []

        def make(_: str, spec: Spec) -> Fake:
            made.append(Fake(spec, script))
            return made[0]

        (outcome,) = trial.run(order, gone, make)
        assert not (tmp_path / "trials" / "c-r1").exists(), "the spool is removed"
        assert not made or made[0].calls[-1] == "remove", "remove comes last, whatever happened"
        return outcome, made[0] if made else None

    return start


def test_the_order_of_a_good_trial(run: Any) -> None:
    steps = "\n".join([step(1, "warmup"), step(2, "measured"), step(3, "measured")]) + '\n{"step'
    outcome, fake = run({"out": {"result.json": result(), "steps.jsonl": steps}})
    assert fake.calls == ["prepare", "launch", "wait", "logs", "remove"]
    assert fake.config == {
        "options": {"steps": 2, "warmup_steps": 1},
        "data_dir": None,
        "cpus": 3,
    }
    found = outcome["record"]
    assert (found["status"], found["reason"]) == ("ok", None)
    assert (outcome["stdout"], outcome["stderr"]) == ("said", "complained")
    assert len(outcome["steps"].splitlines()) == 3, "a cut line is left out"
    assert found["phases"]["input"] == 0.5
    assert found["metrics"]["throughput"]["value"] == 8.0
    assert found["metrics"]["cpu"] == {"value": 1.5, "unit": "s"}


@pytest.mark.parametrize(
    ("script", "cause", "words"),
    [
        ({"raises": {"prepare": StartError("no image")}}, "start", "no image"),
        ({"raises": {"launch": StartError("no daemon")}}, "start", "no daemon"),
        ({"raises": {"wait": RuntimeLostError("gone")}}, "runtime_lost", "gone"),
        ({"ended": Ended(3)}, "exit", "status 3"),
        ({"ended": Ended(-11)}, "exit", "SIGSEGV"),
        ({"ended": Ended(-4)}, "exit", "SIGILL: its image is built for instructions that the CPU"),
        ({"ended": Ended(-9, memory=True)}, "memory", "no memory left"),
        ({}, "output", "left no result.json"),
        ({"out": {"result.json": "{"}}, "output", ""),
        ({"out": {"result.json": "{}"}}, "output", "no scalars"),
        (
            {"out": {"result.json": '{"scalars": {"x": {"value": NaN}}, "marks": {}}'}},
            "output",
            "result.json: NaN is no finite number",
        ),
        (
            {"out": {"result.json": '{"scalars": {"x": 3}, "marks": {}}'}},
            "output",
            "scalar 'x' has no number",
        ),
        (
            {"out": {"result.json": '{"scalars": {}, "marks": {"end": "noon"}}'}},
            "output",
            "mark 'end' is no number",
        ),
        ({"out": {"steps.jsonl": '{"step": }\n'}}, "output", "steps.jsonl, line 1 is not JSON"),
        ({"out": {"steps.jsonl": '{"step": 1}\n'}}, "output", "a step has its phase"),
        (
            {"out": {"steps.jsonl": step(1, "warmup").replace("0.25", '"soon"') + "\n"}},
            "output",
            "a step has its phase, and as numbers mono",
        ),
        ({"out": {"result.json": "[]"}}, "output", "is no object"),
        ({"out": {"result.json": '{"scalars": [], "marks": {}}'}}, "output", "has no scalars"),
        ({"out": {"result.json": NO_SCALARS + ', "flags": "x"}'}}, "output", "flags are a name"),
        ({"out": {"result.json": NO_SCALARS + ', "x": 1e999}'}}, "output", "no finite number"),
        ({"out": {"result.json": NO_SCALARS + f', "x": {"9" * 400}}}'}}, "output", "no finite"),
        ({"out": {"result.json": "[" * 100_000}}, "output", "nested too deeply"),
        ({"raises": {"prepare": FileNotFoundError("unshare")}}, "start", "what it needs: unshare"),
        ({"raises": {"launch": TypeError("no number")}}, "start", "its program: its levels cannot"),
        ({"levels": {"cpus": "one"}}, "start", "its levels cannot be used here: ValueError"),
        ({"levels": {"quota": [2]}}, "start", "its levels cannot be used here: TypeError"),
    ],
)
def test_a_failure_is_a_record(run: Any, script: dict[str, Any], cause: str, words: str) -> None:
    found = run(script)[0]["record"]
    assert found["status"] == "failed"
    assert found["reason"]["cause"] == cause
    assert words in found["reason"]["message"]


def test_the_time_limit_asks_for_the_stack_and_then_ends_it(run: Any) -> None:
    outcome, fake = run({"hangs": True}, limit=0.05)
    assert outcome["record"]["reason"]["cause"] == "timeout"
    rest = [call for call in fake.calls if call != "wait"]
    assert rest == ["prepare", "launch", "signal 6", "signal 18", "logs", "remove"]


def test_it_ends_when_nobody_waits_for_it(run: Any) -> None:
    outcome, _ = run({"hangs": True}, gone=lambda: True)
    assert outcome["record"]["reason"]["cause"] == "controller_lost"


def test_a_trial_that_is_under_way_is_not_taken_for_a_leftover(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusive, "LOCK_SECONDS", 0.0)
    # Of another run, with a state folder of its own.
    with (
        exclusive.only_one(tmp_path / "lock"),
        pytest.raises(Refused, match="another trial is running"),
    ):
        run({"ended": Ended(0)})
    assert not (tmp_path / "trials").exists()


def test_a_controller_that_left_before_the_start_costs_no_start(run: Any) -> None:
    outcome, fake = run({}, gone=lambda: True)
    assert outcome["record"]["reason"]["cause"] == "controller_lost"
    assert "launch" not in fake.calls


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(run: Any, number: int) -> None:
    before = signal.getsignal(number)
    looks = iter([False])

    def gone() -> bool:
        if next(looks, True):
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # a second one must not disturb the clean-up
        return False

    outcome, fake = run({"hangs": True}, gone)
    reason = outcome["record"]["reason"]
    name = signal.Signals(number).name
    assert (reason["cause"], name in reason["message"]) == ("controller_lost", True)
    assert fake.calls[-2:] == ["logs", "remove"]
    assert signal.getsignal(number) is before


def _flag(found: dict[str, Any], name: str) -> str:
    """The detail of a flag, among those that this machine gives rise to."""
    return next(str(flag["detail"]) for flag in found["flags"] if flag["name"] == name)


def test_what_cannot_be_removed_is_said_and_costs_nothing(run: Any) -> None:
    outcome, _ = run({"ended": Ended(3), "raises": {"remove": OSError("busy")}})
    found = outcome["record"]
    assert found["reason"]["cause"] == "exit"
    assert "busy" in _flag(found, "leftovers")


def test_the_end_is_when_it_was_seen_not_when_it_was_asked_about(run: Any) -> None:
    outcome, _ = run({"ended": Ended(3, at=time.monotonic() + 5)})
    clock = outcome["record"]["clock"]
    assert 4 < clock["finished"] - clock["launched"] < 5


def test_output_is_read_from_ordinary_files_only(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"scalars": {}, "marks": {}}')
    (tmp_path / "result.json").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "steps.jsonl")
    with pytest.raises(ValueError, match=r"left no result\.json"):
        record.read_result(tmp_path)
    assert record.read_steps(tmp_path) == ("", [])
    (tmp_path / record.TRACE).symlink_to(tmp_path / "secret")
    assert record.read_trace(tmp_path) == ""


def test_a_trace_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / record.TRACE).write_bytes(b"\x1f\x8b")
    assert base64.b64decode(record.read_trace(tmp_path)) == b"\x1f\x8b"
    with (tmp_path / record.TRACE).open("r+b") as file:
        file.truncate(record.TRACE_BYTES + 1)
    with pytest.raises(ValueError, match="more than"):
        record.read_trace(tmp_path)


def test_folders_of_killed_trials_are_removed_and_said(run: Any, tmp_path: Path) -> None:
    (tmp_path / "trials" / "old-r1" / "out").mkdir(parents=True)
    found = run({"ended": Ended(1)})[0]["record"]
    assert _flag(found, "leftovers") == "folder of trial old-r1"
    assert list((tmp_path / "trials").iterdir()) == []


def test_folders_of_another_program_are_not_trials(run: Any, tmp_path: Path) -> None:
    (tmp_path / MARKER).unlink()
    mine = tmp_path / "trials" / "of-my-thesis"
    mine.mkdir(parents=True)
    with pytest.raises(Refused, match="Strata's state folder must be"):
        run({"ended": Ended(0)})
    assert mine.exists()


def test_phases_add_up() -> None:
    rows = [json.loads(step(n, "warmup" if n < 3 else "measured")) for n in range(1, 6)]
    marks = {"first_step_begin": 12.0, "probe_begin": 20.0, "probe_end": 20.5}
    found = record.phases(marks, rows, launched=10.0, finished=22.0)
    assert found == {
        **{"startup": 2.0, "first_step": 1.0, "warmup": 1.0, "input": 0.75, "compute": 2.25},
        **{"probe": 0.5, "teardown": 4.5},
    }
    assert sum(found.values()) == 12.0


def test_a_trial_whose_steps_are_all_measured_has_no_first_one() -> None:
    rows = [json.loads(step(n, "measured")) for n in (1, 2)]
    found = record.phases({"first_step_begin": 12.0}, rows, launched=10.0, finished=15.0)
    assert "first_step" not in found
    assert sum(found.values()) == 5.0 and found["teardown"] == 1.0


NOTHING = Sample(0.0, Totals(*([0.0] * 9)), 0.0, {})


def later(seconds: float, cpu: dict[str, float] | None = None, **host: float) -> Sample:
    """After that time, with what was used since `NOTHING`."""
    programs = {name: Counters(cpu=used) for name, used in (cpu or {}).items()}
    return Sample(seconds, replace(NOTHING.host, **host), 0.0, programs)  # type: ignore[arg-type]


def test_doubts_are_flagged() -> None:
    found = disturbance.flags(shares(later(10, steal=1.0, swap=4096), 1.5))
    assert [(flag["name"], flag["share"]) for flag in found] == [
        *(("disturbed", 0.075), ("steal", 0.05), ("swap", 1.0)),
    ]
    assert found[0]["detail"] == "7.5% " + disturbance.SAID["others"]
    document: dict[str, Any] = {"metrics": {}, "flags": []}
    record.tell_host(document, [NOTHING, later(10, throttled=2)], set())
    assert [flag["name"] for flag in document["flags"]] == ["throttled"]
    quiet = shares(later(10), None)
    assert disturbance.flags(quiet) == [] and "others" not in quiet


def shares(after: Sample, others: float | None, link: float | None = None) -> dict[str, float]:
    """Of a window of a host with two CPUs."""
    spent = Spent(after.mono, None, None, 0.0, 0.0, others)
    return disturbance.shares([NOTHING, after], spent, 2, link)


def test_each_cause_has_its_share_of_the_window() -> None:
    told = shares(later(10, waited_cpu=9.0, waited_io=5.0, net_sent=3e6, net_received=1e6), 0, 1e6)
    assert "pressure_memory" not in told, "the host did not say"
    assert (told["traffic"], told["others"]) == (0.4, 0.0)
    assert [flag["name"] for flag in disturbance.flags(told)] == ["traffic"]
    seen = [replace(NOTHING, mono=float(n), gauges={"frequency": f}) for n, f in FREQUENCIES]
    slow = disturbance.shares(seen, Spent(4, 0, 0, 0, 0, 0), 2)["frequency"]
    assert slow == 0.4
    assert disturbance.worst([{"others": 0.1}, {"others": 0.3, "steal": 0.0}, {}]) == {
        **{"others": 0.3, "steal": 0.0},
    }


FREQUENCIES = enumerate([3e9, 3e9, 3e9, 2.5e9, 2.6e9])


def test_hosts_of_one_machine_cannot_tell_each_other_from_others() -> None:
    document: dict[str, Any] = {"metrics": {}, "flags": []}
    busy = [NOTHING, later(10, {"m": 10.0}, cpu_busy=20.0)]
    record.tell_host(document, busy, {"m"}, shared=True)
    assert "others" not in document["disturbance"] and document["flags"] == []
    assert document["metrics"]["cpu_others"]["value"] == 10.0


@pytest.mark.parametrize(
    ("seconds", "others", "flagged"),
    [(10, 0.9, False), (10, 1.1, True), (1, 0.19, False), (1, 0.21, True), (100, 4.0, False)],
)
def test_others_are_a_doubt_above_a_share_that_is_more_than_noise(
    seconds: float, others: float, flagged: bool
) -> None:
    found = disturbance.flags(shares(later(seconds), others))
    assert [flag["name"] for flag in found] == ["disturbed"] * flagged


def test_a_record_says_who_used_the_cpus() -> None:
    document: dict[str, Any] = {"metrics": {"cpu": {"value": 4.1, "unit": "s"}}, "flags": []}
    after = later(10, {"m": 4.0, "b": 3.0}, cpu_busy=9.0)
    record.tell_host(document, [NOTHING, after], {"m"})
    record.tell_reference(document, 2e9, 1e9)
    told = {name: metric["value"] for name, metric in document["metrics"].items()}
    assert told == {
        **{"cpu": 4.1, "cpu_beside": 3.0, "cpu_strata": 0.0, "cpu_platform": 0.0},
        **{"cpu_others": 2.0, "reference_before": 2e9, "reference_after": 1e9},
    }
    assert set(told) <= {metric["name"] for metric in record.METRICS}


def test_a_quiet_host_gives_no_flag() -> None:
    document: dict[str, Any] = {"metrics": {}, "flags": []}
    # Both CPUs were busy all the time, with the trial and its background job.
    busy = later(10, {"m": 10.0, "b": 9.8}, cpu_busy=20.0)
    record.tell_host(document, [NOTHING, busy], {"m"})
    assert document["flags"] == []


def test_a_limit_that_held_it_back_is_a_flag_of_the_program() -> None:
    document: dict[str, Any] = {"clock": {"launched": 0.0, "finished": 1.0}, "flags": []}
    record.complete(document, {}, [], Counters(throttled=3))
    assert [flag["name"] for flag in document["flags"]] == ["throttled"]
    assert "3 periods" in document["flags"][0]["detail"]
