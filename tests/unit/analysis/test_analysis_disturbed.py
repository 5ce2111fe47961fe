"""Trials that were void for being disturbed and run again: who was struck, and with and without."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic import DOCKER, NATIVE, Effect, Synthetic, cells

from analysis import load, scenarios, tables, terminal


def run(folder: Path) -> Path:
    """Docker is 10 % slower; two of its trials were disturbed by a half, and run again."""
    made = Synthetic(cells(NATIVE, DOCKER), {"docker": Effect(1.1)}, noise=0.001).write(folder)
    struck = 0
    for path in sorted(made.glob("trials/*/record.json")):
        record = json.loads(path.read_text())
        record["metrics"] |= {
            f"cpu_{name}": {"value": share * 10.0, "unit": "s"}
            for name, share in (("others", 0.1), ("platform", 0.2), ("strata", 0.05))
        }
        record["disturbance"] = {"others": 0.02}
        path.write_text(json.dumps(record))
        if record["levels"]["runtime"] == "docker" and struck < 2:
            struck += 1
            again(path, record)
    return made


def again(path: Path, record: dict[str, Any]) -> None:
    """The trial becomes its second attempt, after a first that was disturbed."""
    second = path.parent.with_name(f"{path.parent.name}.a2")
    shutil.copytree(path.parent, second)
    (second / "record.json").write_text(json.dumps(record | {"attempt": 2}))
    value = record["metrics"]["throughput"]["value"]
    record["metrics"]["throughput"]["value"] = value / 2
    why = {"cause": "disturbed", "message": "31.0% of the CPU time went elsewhere"}
    more = {"status": "void", "reason": why, "disturbance": {"others": 0.31}}
    path.write_text(json.dumps(record | more))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tables.Tables:
    return tables.build(load.load(run(tmp_path_factory.mktemp("runs") / "shaken")))


def test_the_last_attempt_counts_and_all_are_known(found: tables.Tables) -> None:
    assert set(found.trials["status"]) == {"ok"}
    assert sorted(found.loaded.attempts["attempt"]) == [1] * 12 + [2] * 2
    assert found.trials["disturbance_others"].max() == 0.02
    (notice,) = [one for one in found.notices() if "run again" in one]
    assert notice.startswith("2 trials were run again") and "(2 trials were disturbed)" in notice


def test_how_often_the_rule_struck_each_arm(found: tables.Tables) -> None:
    rows = found.struck.set_index("short")
    assert rows["attempts"].to_dict() == {"native/host": 6, "docker/bridge": 8}
    assert rows["void"].to_dict() == {"native/host": 0, "docker/bridge": 2}
    assert rows.loc["docker/bridge", "share"] == 0.25
    native = found.trials[found.trials["short"] == "native/host"]
    assert rows.loc["native/host", "strata"] == pytest.approx((0.5 / native["duration_s"]).mean())


def test_the_answer_with_and_without_them(found: tables.Tables) -> None:
    def answer(frame: pd.DataFrame) -> Any:
        return frame[frame["metric"] == "throughput"].iloc[0]

    without, all_of_them = answer(found.overall), answer(found.without_rule)
    assert without["ratio"] == pytest.approx(1 / 1.1, rel=0.01)
    assert all_of_them["ratio"] == pytest.approx(0.5 ** (2 / 6) / 1.1, rel=0.01)
    assert (without["n"], all_of_them["n"]) == (6, 6)
    titles = [table.title for table in scenarios.tables(found)]
    assert titles == ["What else the hosts did", "With and without the disturbed trials"]
    said = "\n".join(terminal.summary(found))
    for words in (*titles, "25 %"):
        assert words in said, said


def test_a_trial_that_stays_disturbed_costs_its_pair_and_is_no_confound(tmp_path: Path) -> None:
    folder = run(tmp_path / "shaken")
    last = sorted(folder.glob("trials/*.a2/record.json"))[0]
    why = {"cause": "disturbed", "message": "again"}
    record = json.loads(last.read_text()) | {"status": "void", "reason": why}
    last.write_text(json.dumps(record))
    found = tables.build(load.load(folder))
    assert found.overall[found.overall["metric"] == "throughput"].iloc[0]["n"] == 5
    assert found.confounds.empty


def test_without_disturbed_trials_nothing_is_said_of_them(tmp_path: Path) -> None:
    quiet = tables.build(load.load(Synthetic(cells(NATIVE, DOCKER)).write(tmp_path / "quiet")))
    assert quiet.without_rule.empty and not quiet.struck["void"].any()
    assert scenarios.tables(quiet) == []
