"""Runs over several rebuilds, the whole way: planned, answered by simulated hosts, told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import load, rebuilds, scenarios, tables, terminal, two_runs
from benchmarks import simulated
from benchmarks.simulated import Hosts, World
from controller import plan
from controller.experiment import Experiment

ASKED: dict[str, Any] = {
    **{"name": "again", "title": "Again", "workload": "spin", "repeats": 40, "rebuilds": 10},
    **{"factors": {"runtime": ["native", "docker"], "work": [10]}, "disturbed": False},
    **{"baseline": {"runtime": "native"}, "control": False, "time_budget": "99h"},
}
HOST = plan.Host("node0", "bare_metal", ("native", "docker"), 2)


def ran(folder: Path, world: World, **changes: Any) -> Path:
    asked = Experiment.model_validate({**ASKED, **changes})
    made = plan.make(asked, [HOST])
    run = simulated.opened(folder / "again-1", asked, made)
    simulated.play(run, Hosts(world, made, np.random.default_rng(3)))
    return run.folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds differ by 5 %, Docker's share of that by 2 %; a trial's own noise is 1 %, in the one
    case a third of that."""
    world = World("w", builds=0.05, favours=0.02, noise=0.03)
    folder = ran(tmp_path_factory.mktemp("again"), world)
    journal, lines = folder / "journal.jsonl", []
    for event in map(json.loads, (folder / "journal.jsonl").read_text().splitlines()):
        if event["event"] == "slot_finished":  # as if each slot had taken 20 s
            lines.append({**event, "event": "slot_started", "mono": event["mono"] - 20})
        lines.append(event)
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_each_block_is_one_rebuild_and_all_have_as_many_rounds(run: Path) -> None:
    loaded = load.load(run)
    slots = loaded.plan.slots
    assert [slot.rebuild for slot in slots] == sorted(slot.rebuild for slot in slots)
    rounds = {(slot.rebuild, slot.block, slot.round) for slot in slots}
    assert len(rounds) == 40 and {slot.rebuild for slot in slots} == set(range(1, 11))
    assert len({block for _, block, _ in rounds}) == 10
    assert [rebuild.number for rebuild in loaded.rebuilds] == list(range(1, 10))


def test_what_was_planted_is_found(run: Path) -> None:
    built = tables.build(load.load(run))
    found = rebuilds.varying(built.loaded, built.trials, ["rate"])
    ratio, *values = found
    assert (ratio.short, ratio.against) == ("docker/bridge", "native/host") and len(values) == 2
    for one, between in ((ratio, 0.02), (values[0], 0.05)):
        parts = one.parts
        assert parts.rebuilds == 10 and parts.repeats == 4
        assert parts.between.low < between**2 < parts.between.high
        assert parts.share.low > 0.1
    assert ratio.parts.within.low < 2 * 0.01**2 < ratio.parts.within.high


def test_the_page_and_the_terminal_tell_it_and_where_the_next_hour_buys_most(run: Path) -> None:
    built = tables.build(load.load(run))
    shown = {table.title: table for table in scenarios.tables(built)}
    between = shown["Between rebuilds of the testbed, and within them"]
    assert between.rows[0][:3] == ("docker/bridge", "all", "change in rate")
    hour = shown["Where the next hour buys most"]
    assert "A rebuild took 90 s here, a round 40 s" in hour.text
    assert len(hour.rows) == 3
    said = "\n".join(terminal.summary(built))
    assert between.title in said and hour.title in said


def test_what_is_tried_again_counts_for_the_build_that_was_there_then(run: Path) -> None:
    loaded = load.load(run)
    first = loaded.plan.slots[0].slot
    again = json.dumps(
        {"event": "slot_finished", "wall": "", "mono": 1.0, "slot": first, "trials": {}}
    )
    journal = run / "journal.jsonl"
    text = journal.read_text()
    assert rebuilds.of_slots(loaded)[first] == 1
    journal.write_text(f"{text}{again}\n")
    try:
        assert rebuilds.of_slots(load.load(run))[first] == 10
    finally:
        journal.write_text(text)


def test_a_run_on_one_build_says_nothing_of_it(tmp_path: Path) -> None:
    folder = ran(tmp_path, World("w"), repeats=6, rebuilds=1)
    built = tables.build(load.load(folder))
    assert {slot.rebuild for slot in built.loaded.plan.slots} == {0}
    assert rebuilds.varying(built.loaded, built.trials, ["rate"]) == []
    assert not any("rebuild" in table.title for table in scenarios.tables(built))


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.985, 1.015, "equivalent"),
        (0.985, 1.021, "not shown"),
        (0.9, 1.1, "not shown"),
        (1.021, 1.03, "not equivalent"),
        (0.9, 0.979, "not equivalent"),
        (float("nan"), float("nan"), "not shown"),
    ],
)
def test_equivalence_is_shown_by_the_interval_or_not_at_all(
    low: float, high: float, said: str
) -> None:
    row = {"ratio_low": low, "ratio_high": high, "verdict": "no credible change"}
    assert two_runs.equivalent(row, 0.02) == said
    assert two_runs.equivalent({**row, "verdict": "too few trials"}, 0.02) == "not shown"
