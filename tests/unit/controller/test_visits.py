"""A run with settings: what its journal tells of them, and which blocks are still to be visited."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from strata import networks
from strata.errors import Refused
from test_results import LEVELS, RUN, acting, outcome, trial

from action_plugins import strata_block
from controller import results, visits

HOSTS = {name: {"substrate": "vm"} for name in ("one", "here", "spare")}


def slot(number: int, block: str, network: str, host: str, setting: str = "costly") -> Any:
    made = trial(number)
    made["levels"] = {**LEVELS, "network": network}
    made["members"] = [{**made["members"][0], "host": host}]
    place = {"block": block, "setting": setting, "round": 1, "position": number, "rebuild": 0}
    return {"slot": f"s{number}", **place, "hosts": [host], "trials": [made]}


# The baseline is measured in each block, here on a host that does not have the network.
SLOTS = [
    slot(1, "b1", "host", "spare"),
    slot(2, "b1", "bridge", "here"),
    slot(3, "b2", "bridge", "one"),
    slot(4, "b2", "host", "spare"),
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> results.Run:
    costly = dataclasses.replace(networks.NETWORKS["bridge"], setting="costly", role="makes_it")
    monkeypatch.setitem(networks.NETWORKS, "bridge", costly)
    plan = {"slots": SLOTS, "estimate": {}}
    return results.Run.create(tmp_path / "x-1", {**RUN, "hosts": HOSTS}, plan, {})


def store(run: results.Run, number: int, status: str = "ok") -> None:
    told = outcome(number, status)
    here = SLOTS[number - 1]["hosts"][0]
    told["record"]["levels"] = SLOTS[number - 1]["trials"][0]["levels"]
    told["record"]["member"] = {**told["record"]["member"], "host": here}
    if status == "failed":
        told["record"]["reason"] = {"cause": "exit", "message": "m"}
    run.store(SLOTS[number - 1], [told])


def note(run: results.Run, state: str, block: str = "b1", **more: Any) -> Any:
    """What the module strata_block does."""
    (visit,) = [one for one in visits.of(run, SLOTS) if one["block"] == block]
    given = {"block": visit, "stage": "present", "results": {}, "proven": [], "seen": {}, **more}
    return acting(strata_block, state=state)(run.folder, given)


def test_the_blocks_of_pending_slots_are_visited_in_plan_order(run: results.Run) -> None:
    store(run, 1)
    first, second = visits.of(run, run.pending())
    setting = {"setting": "costly", "role": "makes_it", "hosts": ["one", "here"]}
    setting |= {"rebuild": 0, "before": {"share": 0.05, "patience_s": 0.0, "slots": []}}
    assert first == {"block": "b1", **setting, "slots": SLOTS[1:2], "pairs": [SLOTS[1:2]]}
    assert second == {
        "block": "b2",
        **setting,
        "slots": SLOTS[2:],
        "pairs": [[s] for s in SLOTS[2:]],
    }
    for number in (3, 4):
        store(run, number)
    assert visits.of(run, run.pending()) == [first], "there is nothing to switch to for b2"


def test_a_block_without_a_setting_needs_no_role(run: results.Run) -> None:
    plain = slot(9, "b9", "host", "one", setting="")
    (visit,) = visits.of(run, [plain])
    assert (visit["setting"], visit["role"], visit["hosts"]) == ("", "", [])


def test_a_setting_that_no_network_needs_any_more_is_refused(run: results.Run) -> None:
    with pytest.raises(Refused, match="a role switches to the setting 'gone'") as refused:
        visits.of(run, [slot(9, "b9", "host", "one", setting="gone")])
    assert "costly, docker_overlay, " in refused.value.given


def test_the_settings_of_a_plan_name_their_role_and_their_hosts(run: results.Run) -> None:
    addresses = {"one": "10.0.0.1", "here": "10.0.0.2", "spare": "10.0.0.3"}
    (found,) = visits.settings(SLOTS, addresses)
    assert (found["setting"], found["role"]) == ("costly", "makes_it")
    assert found["hosts"] == {"one": "10.0.0.1", "here": "10.0.0.2"}, "not that of the baseline"


def test_what_was_begun_and_not_left_may_still_be_there(run: results.Run) -> None:
    assert visits.unleft(run) == []
    for state in ("begun", "proven"):
        note(run, state)
        (unleft,) = visits.unleft(run)
        assert (unleft["block"], unleft["role"], unleft["slots"]) == ("b1", "makes_it", [])
    note(run, "failed", stage="absent")
    assert [one["block"] for one in visits.unleft(run)] == ["b1"]
    note(run, "left", proven=["one", "here"])
    assert visits.unleft(run) == []


def test_a_setting_is_left_when_each_of_its_hosts_is(run: results.Run) -> None:
    note(run, "begun")
    with pytest.raises(Refused, match="seen to have nothing of it") as refused:
        note(run, "left", proven=["here"])
    assert refused.value.given == "no answer from one"
    assert [one["block"] for one in visits.unleft(run)] == ["b1"]


def test_a_run_with_a_block_that_was_not_measured_is_not_closed(run: results.Run) -> None:
    for state in ("begun", "failed"):
        note(run, state, stage="prove", results={"one": {"failed": True, "msg": "no traffic"}})
    note(run, "left", proven=["one", "here"])
    for number in (3, 4):
        store(run, number)
    with pytest.raises(Refused, match="not measured: b1") as refused:
        run.close()
    assert refused.value.given == "b1, setting costly, prove: one: no traffic"
    assert not run.closed()
    assert [slot["slot"] for slot in run.pending()] == ["s1", "s2"]
    run.event("resumed")
    for number in (1, 2):
        store(run, number)
    run.close()
    assert run.closed(), "what failed before the same command was given again is over"


def test_a_failed_trial_is_tried_again_in_its_block_and_nothing_else_is(run: results.Run) -> None:
    store(run, 1)
    store(run, 2, "failed")
    assert [one["slots"] for one in visits.of(run, run.again(["exit"], 2))] == [SLOTS[1:2]]
    assert run.again([], 2) == run.again(["exit"], 1) == []


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"one": {}, "here": {"failed": True, "msg": " broken\n"}}, "here: broken"),
        (
            {"one": {"failed": True, "msg": "x", "results": [{}, {"failed": True, "msg": "item"}]}},
            "one: item",
        ),
        ({"one": {}}, strata_block.SILENT),
    ],
)
def test_a_failure_is_told_in_the_words_of_the_task_that_failed(
    run: results.Run, results: dict[str, Any], message: str
) -> None:
    told = note(run, "failed", stage="present", results=results)
    assert told["message"] == run.journal()[-1]["message"] == message
    assert told["proven"] is False
    assert told["progress"] == [f"block b1, setting costly: it could not be made: {message}"]


def test_what_the_role_saw_stands_in_the_journal_where_it_saw_something(run: results.Run) -> None:
    note(run, "begun")
    note(run, "proven", seen={"one": {"policies": "enforced"}, "here": {}})
    note(run, "proven")
    *_, first, second = run.journal()
    assert first["seen"] == {"one": {"policies": "enforced"}}
    assert "seen" not in second
