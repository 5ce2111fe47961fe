"""Several programs on one host: a background job, peers, and how all of them end."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from strata import runtimes
from strata.cell import Cell
from strata.host import cpus, exclusive, lease, sampler
from strata.host.counters import Counters
from strata.members import Port
from strata.runtimes.base import Ended, Spec, StartError
from strata.trial import account, program, reference
from strata.trial import slot as trial
from test_trial import LEVELS, result, step

from controller import topology


class Actor:
    """A program that does what its script says; all calls of all actors are in `log`."""

    def __init__(self, spec: Spec, script: dict[str, Any], log: list[str]) -> None:
        self.spec, self.script, self.log = spec, script, log
        self.config = json.loads((spec.spool / "in/config.json").read_text())
        given = {name: (spec.spool / name).stat() for name in ("", "in/config.json")}
        self.modes = {name: stat.S_IMODE(status.st_mode) for name, status in given.items()}
        self.owner = given["in/config.json"].st_uid
        self._told, self._launched = threading.Event(), 0.0

    def prepare(self) -> None:
        self.log.append(f"prepare {self.spec.name}")

    def launch(self) -> None:
        self.log.append(f"launch {self.spec.name}")
        if "refuses" in self.script:
            raise StartError(self.script["refuses"])
        self._launched = time.monotonic()
        if self.script.get("steps", True):
            text = step(1, "warmup") + "\n" + step(2, "measured") + "\n"
            (self.spec.spool / "out/steps.jsonl").write_text(text)
        (self.spec.spool / "out/result.json").write_text(result())

    def wait(self, seconds: float) -> Ended | None:
        until = self.script.get("until")
        if self._told.wait(min(seconds, 0.01)):
            return Ended(self.script.get("when_told", 0))
        if until is not None and time.monotonic() - self._launched > until:
            return Ended(self.script.get("code", 0))
        return None

    def usage(self) -> Counters:
        return Counters(cpu=1.0)

    def phases(self) -> dict[str, float]:
        return {}

    def signal(self, number: int) -> None:
        self.log.append(f"signal {signal.Signals(number).name} {self.spec.name}")
        if number == signal.SIGTERM and not self.script.get("deaf"):
            self._told.set()

    def logs(self) -> tuple[str, str]:
        return "", ""

    def remove(self) -> None:
        self.log.append(f"remove {self.spec.name}")


@pytest.fixture(autouse=True)
def quiet_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lease, "folder", lambda: tmp_path / "lock")
    monkeypatch.setattr(exclusive, "settle", lambda _: [])
    monkeypatch.setattr(runtimes, "leftovers", list)
    monkeypatch.setattr(reference, "SECONDS", 0.001)
    monkeypatch.setattr(trial, "PEER_SECONDS", 0.2)
    monkeypatch.setattr(trial, "BACKGROUND_SECONDS", 0.2)


@pytest.fixture
def usage() -> list[list[int]]:
    """The number of samples in each outcome of each slot that was played."""
    return []


@pytest.fixture
def play(
    tmp_path: Path, usage: list[list[int]]
) -> Callable[..., tuple[dict[str, Any], list[str], list[Actor]]]:
    def start(
        trials: list[dict[str, Any]], scripts: dict[str, dict[str, Any]], limit: float = 60
    ) -> tuple[dict[str, Any], list[str], list[Actor]]:
        slot = {"run": "r", "slot": "s1", "hosts": ["n1"], "trials": trials}
        images = {"tools": {"family": "tools", "kind": "rootfs", "digest": "d", "rootfs": "/x"}}
        where = {"n1": "10.0.0.1"}
        order = trial.Order(slot, "n1", images, {}, {}, limit, tmp_path, where, "secret")
        log: list[str] = []
        actors: list[Actor] = []

        def make(_: str, spec: Spec) -> Actor:
            actors.append(Actor(spec, scripts.get(spec.name, {"until": 0.0}), log))
            return actors[-1]

        outcomes = trial.run(order, lambda: False, make)
        usage.append([len(outcome["usage"]) for outcome in outcomes])
        assert list((tmp_path / "trials").iterdir()) == [], "every folder is removed"
        assert {line for line in log if line.startswith("remove")} == {
            f"remove {actor.spec.name}" for actor in actors
        }
        found = {name(outcome["record"]): outcome["record"] for outcome in outcomes}
        return found, log, actors

    return start


def name(record: dict[str, Any]) -> str:
    member = record["member"]
    return f"{record['trial']}/{member['role']}{member['index']}"


def one(role: str, name: str, **levels: Any) -> dict[str, Any]:
    chosen = {**LEVELS, "cpus": None, **levels}
    roster = topology.roster(Cell.of(chosen), ["n1"])
    rest = {"cell": "c", "repetition": 1, "role": role, "members": roster}
    rest |= {"family": "tools", "levels": chosen}
    return {"trial": name, **rest}


PAIR = [one("measured", "m"), one("background", "b")]


def test_the_neighbour_is_first_and_ends_when_told(play: Any) -> None:
    found, log, actors = play(PAIR, {"m": {"until": 0.05}, "b": {}})
    assert log[:5] == ["prepare b", "launch b", "prepare m", "launch m", "signal SIGTERM b"]
    assert [record["status"] for record in found.values()] == ["ok", "ok"]
    configs = {actor.spec.name: actor.config for actor in actors}
    assert configs["b"]["until_terminated"] is True
    assert "until_terminated" not in configs["m"] and "cluster" not in configs["m"]


def test_each_trial_has_an_account_which_its_members_share(play: Any) -> None:
    trials = [one("measured", "m", **RING), one("background", "b")]
    _, _, actors = play(trials, {"b": {}})
    accounts = {actor.spec.name: actor.spec.account for actor in actors}
    ring = {accounts[name] for name in ("m-worker0", "m-worker1", "m-server0")}
    assert len(ring) == 1
    assert os.geteuid() != 0 or accounts["b"] not in ring
    assert account.COMMON.isdisjoint(accounts.values())
    for actor in actors:
        assert actor.modes == {"": 0o700, "in/config.json": 0o600}
        assert actor.owner == actor.spec.account


def test_without_a_neighbour_that_measures_nothing_is_measured(play: Any) -> None:
    found, log, _ = play(PAIR, {"b": {"until": 0.05, "code": 1, "steps": False}})
    assert "launch m" not in log
    assert found["b/worker0"]["reason"]["cause"] == "exit"
    assert found["m/worker0"]["reason"]["cause"] == "overlap"


def test_a_neighbour_that_ends_early_ends_the_slot(play: Any) -> None:
    found, _, _ = play(PAIR, {"m": {}, "b": {"until": 0.1, "code": 1}})
    assert found["m/worker0"]["reason"]["cause"] == "overlap"


def test_a_neighbour_that_does_not_end_is_removed_and_said(play: Any) -> None:
    found, log, _ = play(PAIR, {"m": {"until": 0.02}, "b": {"deaf": True}})
    assert found["m/worker0"]["status"] == "ok"
    assert found["b/worker0"]["reason"]["cause"] == "timeout" and "remove b" in log


def test_what_was_sampled_is_told_once_for_each_trial(
    play: Any, usage: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "INTERVAL", 0.01)
    scripts = {name: {"until": 0.2} for name in ("m-worker0", "m-worker1", "m-server0")}
    found, _, _ = play([one("measured", "m", **RING), one("background", "b")], {**scripts, "b": {}})
    background, first, *rest = usage[0]
    assert background > 0 and first > 0 and rest == [0, 0]
    who = {"cpu_beside", "cpu_strata", "cpu_others"}
    told = {name for name, record in found.items() if who <= set(record["metrics"])}
    assert told == {"b/worker0", "m/worker0"}


def test_of_a_slot_in_which_nothing_was_measured_nothing_is_said(play: Any) -> None:
    found, _, _ = play(PAIR, {"m": {"refuses": "no"}, "b": {}})
    assert "cpu_others" not in found["b/worker0"]["metrics"]
    assert "cpu_others" not in found["m/worker0"]["metrics"]


RING = {
    "workload": "mnist_dnn",
    "distribution": "ps_sync",
    "workers": 2,
    "servers": 1,
    "placement": "packed",
}


def test_all_peers_are_prepared_before_any_is_launched(play: Any) -> None:
    found, log, actors = play([one("measured", "m", **RING)], {})
    names = ["m-worker0", "m-worker1", "m-server0"]
    assert log[:6] == [f"prepare {n}" for n in names] + [f"launch {n}" for n in names]
    assert len(found) == 3 and all(record["status"] == "ok" for record in found.values())
    told = actors[1].config["cluster"]
    assert told["workers"] == ["10.0.0.1:29400", "10.0.0.1:29401"]
    assert (told["key"], told["listen"], told["role"]) == ("secret", 29401, "worker")
    ports = {actor.spec.name: actor.spec.ports for actor in actors}
    assert ports == {
        f"m-{name}": [Port("peers", "tcp", number)]
        for name, number in (("worker0", 29400), ("worker1", 29401), ("server0", 29402))
    }


def test_when_one_fails_its_peers_are_freed(play: Any) -> None:
    scripts = {
        "m-worker0": {},
        "m-worker1": {"until": 0.02, "code": 1},
        "m-server0": {"until": 0.05, "code": program.PEER_LOST},
    }
    found, _, _ = play([one("measured", "m", **RING)], scripts)
    causes = {name: record["reason"]["cause"] for name, record in found.items()}
    assert causes == {"m/worker0": "peer", "m/worker1": "exit", "m/server0": "peer"}


def test_peers_that_hang_end_with_their_stacks_on_record(play: Any) -> None:
    scripts: dict[str, Any] = {name: {} for name in ("m-worker0", "m-worker1", "m-server0")}
    found, log, _ = play([one("measured", "m", **RING)], scripts, limit=0.1)
    assert {record["reason"]["cause"] for record in found.values()} == {"timeout"}
    assert len([line for line in log if line.startswith("signal SIGABRT")]) == 3


def test_one_program_for_all_has_a_pin_for_each(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    found, _, actors = play([one("measured", "m", **{**RING, "placement": "together"})], {})
    (actor,) = actors
    assert [item["affinity"] for item in actor.config["together"]] == [[0, 3], [1], [2]]
    assert actor.spec.ports == [] and "cluster" not in actor.config
    assert len(found) == 3
    # The members' own folders are missing here, and each says so.
    assert {record["reason"]["cause"] for record in found.values()} == {"output"}


def test_the_key_is_read_by_its_own_account_only(play: Any) -> None:
    modes = []
    check = program.Program._write_config

    def look(self: program.Program, spec: Spec) -> None:
        check(self, spec)
        modes.append((self.spool / "in/config.json").stat().st_mode & 0o777)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.Program, "_write_config", look)
        play([one("measured", "m")], {})
    assert modes == [0o600]


def duet(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr(cpus, "cores", lambda: [[0], [1]])
    return [{**one("measured", name), "side": side} for side, name in enumerate("ab", 1)]


def test_both_of_a_duet_run_at_once_each_on_its_half(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, log, actors = play(duet(monkeypatch), {"a": {"until": 0.02}, "b": {"until": 0.1}})
    assert log[:4] == ["prepare a", "prepare b", "launch a", "launch b"]
    assert [record["status"] for record in found.values()] == ["ok", "ok"]
    assert [record["duet"] for record in found.values()] == [
        {"side": 1, "cpus": "0"}, {"side": 2, "cpus": "1"},
    ]  # fmt: skip
    assert [actor.spec.resources.cpus for actor in actors] == ["0", "1"]
    assert [actor.config["cpus"] for actor in actors] == [1, 1]
    assert {record["levels"]["cpus"] for record in found.values()} == {None}
    who = {"cpu_beside", "cpu_others"}
    assert all(who <= set(record["metrics"]) for record in found.values())


def test_the_end_of_one_of_a_duet_is_not_that_of_the_other(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, log, _ = play(duet(monkeypatch), {"a": {"until": 0.0, "code": 1}, "b": {"until": 0.5}})
    assert found["a/worker0"]["reason"]["cause"] == "exit"
    assert found["b/worker0"]["status"] == "ok", "though it lived on for longer than peers may"
    assert not any(line.startswith("signal") for line in log)
