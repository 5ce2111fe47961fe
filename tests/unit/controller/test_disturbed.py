"""What becomes of a disturbed trial: void, and run again with its pair, once for each attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.errors import Refused
from test_results import LEVELS, RUN, acting, outcome, trial

from action_plugins import strata_run_folder, strata_slot
from controller import disturbed, experiment, opening, results

RULE = {"others": 0.05, "steal": None, "again": 2, "rest": "5s", "warm_up": True}
ASKED = {"time_budget": "1h", "disturbed": RULE}


def slot(number: int, round_: int = 1, **levels: Any) -> dict[str, Any]:
    made = trial(number)
    made["levels"] = {**LEVELS, **WHOLE, **levels}
    place = {"block": "b1", "setting": "", "round": round_, "position": number, "rebuild": 0}
    return {"slot": f"s{number}", **place, "hosts": ["here"], "trials": [made]}


WHOLE = {
    **{"label": "", "cpus": None, "memory": None, "numa": None, "gpus": None, "quota": None},
    **{"workers": 1, "servers": 0, "beside": None},
}
# Two cases of two arms in the first round, and the first case once more in the second.
ARMS = ({"runtime": "native"}, {"runtime": "docker", "network": "bridge"})
SLOTS = [
    slot(number, round_, work=work, **arm)
    for number, (round_, work, arm) in enumerate(
        [(r, w, arm) for r, w in ((1, 5), (1, 6), (2, 5)) for arm in ARMS], 1
    )
]


def opened(tmp_path: Path, **asked: Any) -> results.Run:
    document = {**RUN, "experiment": {**ASKED, **asked}, "baseline": {"runtime": "native"}}
    plan = {"slots": SLOTS, "estimate": {}}
    return results.Run.create(tmp_path / "x-1", document, plan, {})


@pytest.fixture
def run(tmp_path: Path) -> results.Run:
    return opened(tmp_path)


def answer(number: int, others: float, status: str = "ok") -> dict[str, Any]:
    """What the module says of a slot in which others used so much of the CPU time."""
    told = outcome(number, status)
    told["record"] |= {"disturbance": {"others": others, "steal": 0.9}}
    told["record"]["levels"] = SLOTS[number - 1]["trials"][0]["levels"]
    if status == "failed":
        told["record"]["reason"] = {"cause": "exit", "message": "m"}
    return {"outcomes": [told]}


def store(run: results.Run, number: int, others: float = 0.0, status: str = "ok") -> list[str]:
    """Keep what came of a slot; the slots that are to be run again now."""
    given = {"outcomes": [answer(number, others, status)], "slot": SLOTS[number - 1]}
    told = acting(strata_slot, state="stored")(run.folder, given)
    return [one["slot"] for one in told["again"]]


def test_a_cause_above_the_rule_voids_a_trial_and_its_pair_is_run_again(run: results.Run) -> None:
    assert store(run, 1) == []
    assert store(run, 2, others=0.3) == ["s1", "s2"]
    kept = run.folder / "trials"
    first = results.schema.read_record(kept / "c2-r1" / "record.json")
    assert (first.status, first.reason and first.reason.cause) == ("void", "disturbed")
    assert first.reason and "30.0% of the CPU time" in first.reason.message
    assert [store(run, 1), store(run, 2)] == [[], []]
    again = results.schema.read_record(kept / "c2-r1.a2" / "record.json")
    assert (again.status, again.attempt) == ("ok", 2)
    assert results.schema.read_record(kept / "c2-r1" / "record.json") == first, "it stays"
    assert (kept / "c1-r1.a2/record.json").exists(), "the other arm, too"
    assert run.statuses() == {"c1-r1": "ok", "c2-r1": "ok"}


def test_the_first_of_a_pair_waits_for_the_second(run: results.Run) -> None:
    assert store(run, 1, others=0.3) == []
    assert store(run, 2) == ["s1", "s2"]


def test_there_is_a_limit(run: results.Run) -> None:
    store(run, 1)
    for again in (["s1", "s2"], ["s1", "s2"], []):
        assert store(run, 2, others=0.3) == again
        if again:
            store(run, 1)
    assert sorted(path.name for path in (run.folder / "trials").iterdir()) == [
        *("c1-r1", "c1-r1.a2", "c1-r1.a3", "c2-r1", "c2-r1.a2", "c2-r1.a3")
    ]


def test_after_a_kill_what_was_not_repeated_is_repeated_once(run: results.Run) -> None:
    store(run, 1, others=0.3)
    killed = results.Run(run.folder)
    left = ["s2", "s3", "s4", "s5", "s6"]
    assert [one["slot"] for one in killed.to_measure()] == left, "first the pair is completed"
    store(killed, 2)
    assert [one["slot"] for one in killed.to_measure()] == ["s1", *left]
    store(killed, 1)
    for number in (3, 4, 5, 6):
        store(killed, number)
    again = results.Run(run.folder)
    assert [one["slot"] for one in again.to_measure()] == ["s2"], "of a repeat the other half"
    assert store(again, 2) == []
    assert results.Run(run.folder).to_measure() == []
    assert [len(run._attempts(f"c{n}-r1")) for n in (1, 2, 3)] == [2, 2, 1]


def test_both_trials_of_a_repeat_have_one_number(run: results.Run) -> None:
    """Also where one of them had been tried again by itself."""
    store(run, 1, status="failed")
    store(run, 2)
    assert store(run, 1, others=0.3) == ["s1", "s2"]
    store(run, 1)
    store(run, 2)
    assert run.to_measure() == SLOTS[2:]
    assert {trial: number for trial, (number, _) in run.latest().items()} == {
        **{"c1-r1": 3, "c2-r1": 3},
    }


def test_what_comes_of_a_trial_decides_nothing(run: results.Run) -> None:
    rule = {**RULE, "steal": None}
    for role, status in (("background", "ok"), ("measured", "failed")):
        record = {"role": role, "status": status, "disturbance": {"others": 1.0}}
        disturbed.judge(record, rule)
        assert record["status"] == status
    quiet = {"role": "measured", "status": "ok", "disturbance": {"others": 0.05, "steal": 1.0}}
    disturbed.judge(quiet, rule)
    assert quiet["status"] == "ok", "at the limit, and by a cause that decides nothing"
    disturbed.judge(quiet, {**rule, "steal": 0.5})
    assert quiet["status"] == "void"


def test_the_rule_can_be_turned_off(tmp_path: Path) -> None:
    run = opened(tmp_path, disturbed=False)
    for number in (1, 2):
        assert store(run, number, others=0.9) == []
    assert set(run.statuses().values()) == {"ok"}
    assert run.to_measure() == SLOTS[2:]


def test_nothing_is_run_again_beyond_the_time_budget(tmp_path: Path) -> None:
    run = opened(tmp_path, time_budget="1s")
    store(run, 1)
    assert store(run, 2, others=0.9) == []
    assert run.statuses()["c2-r1"] == "void"
    assert [one["slot"] for one in run.to_measure()] == ["s3", "s4", "s5", "s6"], "nor later"


def test_nor_is_it_where_the_run_is_resumed_after_a_kill(tmp_path: Path) -> None:
    """What was stored before the kill had not been looked at."""
    for budget, again in (("1s", []), ("10h", ["s1", "s2"])):
        run = opened(tmp_path / budget, time_budget=budget)
        store(run, 1)
        run.store(SLOTS[1], answer(2, 0.9)["outcomes"])
        plan = {"hosts": {}, "families": ["tools"]}
        left = opening.resumed(run, plan, RUN["images"], {}, [], 1)
        assert [one["slot"] for one in left] == [*again, "s3", "s4", "s5", "s6"]


def test_pairs_are_the_arms_of_a_case_in_a_round() -> None:
    found = disturbed.pairs(SLOTS, {"runtime": "native"})
    assert [[one["slot"] for one in pair] for pair in found] == [
        *(["s1", "s2"], ["s3", "s4"], ["s5", "s6"])
    ]
    old = [{**one, "round": 0} for one in SLOTS]
    assert [len(pair) for pair in disturbed.pairs(old, {"runtime": "native"})] == [1] * 6


def test_each_host_begins_with_a_slot_that_needs_no_setting() -> None:
    costly = slot(1, network="vxlan")
    far = {**slot(3), "hosts": ["there"]}
    found = disturbed.before(RULE, [costly, slot(2), slot(4), far])
    assert [one["slot"] for one in found["slots"]] == ["s2", "s3"]
    assert (found["share"], found["patience_s"]) == (0.05, 5.0)
    assert disturbed.before({**RULE, "warm_up": False, "others": None}, [slot(2)]) == {
        **{"share": 0.05, "patience_s": 5.0, "slots": []},
    }
    assert disturbed.before({}, [slot(2)])["patience_s"] == 0


def test_what_comes_first_is_noted_and_is_no_record(run: results.Run) -> None:
    given = {"slot": SLOTS[0], "outcomes": [answer(1, 0.0)]}
    acting(strata_slot, state="warmed_up")(run.folder, given)
    rest = {"here": {"rested": False, "waited_s": 30.0, "others": 0.5}}
    told = acting(strata_run_folder, state="rested")(run.folder, {"rests": rest})
    assert "after 30 s others still use 50%" in told["progress"][0]
    events = run.journal()
    assert [event["event"] for event in events] == ["opened", "warmed_up", "rested"]
    assert events[1]["trials"] == {"c1-r1": "ok"}
    assert run.done() == set()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"othres": 0.1}, "did you mean 'others'"),
        ({"others": 5}, "less than or equal to 1"),
        ({"again": -1}, "greater than or equal to 0"),
        ({"rest": "soon"}, "soon"),
        (True, "disturbed: false"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(given: Any, words: str, tmp_path: Path) -> None:
    asked = {
        **{"name": "x", "title": "X", "workload": "spin", "baseline": {}, "repeats": 1},
        **{"factors": {"runtime": ["native"]}, "disturbed": given},
    }
    (tmp_path / "x.yml").write_text(yaml.safe_dump(asked))
    with pytest.raises(Refused) as refused:
        experiment.load(tmp_path / "x.yml")
    assert words in str(refused.value)
