"""A run that ends when it knows enough: the rule, the decision, the intervals that bear it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import inference, load, page, stopping, tables
from benchmarks import simulated
from benchmarks.inference import looked_at
from benchmarks.simulated import Hosts, World
from controller import plan, results
from controller.experiment import Experiment

ASKED: dict[str, Any] = {
    **{"name": "brief", "title": "Brief", "workload": "spin", "repeats": 40, "control": False},
    **{"factors": {"runtime": ["native", "docker"], "work": [10, 20]}},
    **{"baseline": {"runtime": "native"}, "stop": {"of": {"runtime": "docker"}, "within": 0.02}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> results.Run:
    asked = Experiment.model_validate(ASKED)
    made = plan.make(asked, [plan.Host("node0", "bare_metal", ("native", "docker"), 2)])
    run = simulated.opened(tmp_path_factory.mktemp("stop") / "brief-1", asked, made)
    simulated.play(run, Hosts(World("w", noise=0.01), made, np.random.default_rng(1)))
    return run


def test_a_run_ends_after_the_round_in_which_it_knows_enough(run: results.Run) -> None:
    (event,) = [one for one in run.journal() if one["event"] == "stopped"]
    assert 5 <= event["round"] < 40 and event["within"] <= 0.02
    assert event["pairs"] == 2 * event["round"]
    assert {slot["round"] for slot in run.slots() if slot["trials"][0]["trial"] in run.done()} == {
        *range(1, event["round"] + 1)
    }
    assert run.pending() == [] and run.to_measure() == []


def test_the_decision_outlives_a_kill_and_is_made_where_one_came_before_it(
    run: results.Run, tmp_path: Path
) -> None:
    assert results.Run(run.folder).stopped == run.stopped > 0
    killed = Path(shutil.copytree(run.folder, tmp_path / run.folder.name))
    lines = (killed / "journal.jsonl").read_text().splitlines(keepends=True)
    (killed / "journal.jsonl").write_text("".join(x for x in lines if '"stopped"' not in x))
    resumed = results.Run(killed)
    assert len(resumed.pending()) == 4 * (40 - run.stopped)
    assert "which is the last" in simulated.stopping.look(resumed)
    assert resumed.stopped == run.stopped and resumed.pending() == []
    assert simulated.stopping.look(resumed) == "", "once"
    last = resumed.slots()[4 * run.stopped - 1]["trials"][0]["trial"]
    (killed / "journal.jsonl").write_text("".join(x for x in lines if '"stopped"' not in x))
    shutil.rmtree(killed / "trials" / last)
    assert simulated.stopping.look(results.Run(killed)) == "", "not in the middle of a round"


def test_the_page_says_so_and_no_verdict_has_a_plain_interval(run: results.Run) -> None:
    loaded = load.load(run.folder)
    assert loaded.progress() == (4 * run.stopped, 4 * run.stopped)
    found = tables.build(loaded, judge_steps=False)
    (said,) = [one for one in found.notices() if "rule" in one]
    assert f"after round {run.stopped} of at most 40" in said and "(asked: ±2.0 %)" in said
    assert said.replace("±", "") in page.render(found).replace("±", "")
    (row,) = found.overall.to_dict("records")
    known = stopping.known(loaded)
    assert known and known.enough and row["ratio_high"] / row["ratio"] - 1 == known.within
    plain = load.load(run.folder)
    plain.run.experiment.pop("stop")
    (narrow,) = tables.build(plain, judge_steps=False).overall.to_dict("records")
    assert narrow["ratio_high"] - narrow["ratio_low"] < row["ratio_high"] - row["ratio_low"]


def test_looking_again_and_again_makes_no_false_gaps() -> None:
    """Where a plain interval of 95 % does."""
    anytime, plain = looked_at(runs=2000, most=60, seed=1)
    assert anytime <= 0.05
    assert plain > 0.15


def test_an_a_a_arm_can_be_named_where_nothing_else_bears_its_levels(tmp_path: Path) -> None:
    factors = {"runtime": ["native"], "label": ["a", "b"], "work": [10]}
    stop = {"of": {"label": "b"}, "within": 0.03}
    asked = Experiment.model_validate(
        {**ASKED, "factors": factors, "baseline": {"label": "a"}, "stop": stop}
    )
    made = plan.make(asked, [plan.Host("node0", "bare_metal", ("native",), 2)])
    run = simulated.opened(tmp_path / "brief-1", asked, made)
    simulated.play(run, Hosts(World("w", noise=0.01), made, np.random.default_rng(1)))
    assert 0 < run.stopped < 40


def test_the_interval_is_where_p_is_5_percent() -> None:
    for count in (5, 6, 20, 200):
        edge = inference.Anytime(1.0, 1.0, count - 1).half_width
        assert inference.Anytime(edge, 1.0, count - 1).p == pytest.approx(0.05)
    assert inference.Anytime(0.0, 1.0, 3).half_width == np.inf
    assert inference.Anytime(0.0, 1.0, 9).p == 1.0
    still = inference.at_any_time([np.array([0.1, 0.1, 0.1, 0.1])])
    assert np.isnan(still.error), "of four nobody knows"


def test_of_duets_two_make_one_observation() -> None:
    sides = np.array([1, 2, 1, 2, 1])
    found = inference.balanced(np.where(sides == 2, 0.3, 0.1), sides)
    assert found == pytest.approx([0.2, 0.2])
