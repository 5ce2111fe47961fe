"""Records that are wrong: each is refused or left out in a sentence, and the rest stays usable."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
from synthetic import DOCKER, NATIVE, Synthetic

from analysis import export, load, matching, stats, tables, terminal
from analysis.__main__ import main
from schema import documents as schema
from schema.documents import SchemaError

Document = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Synthetic(synthetic.cells(NATIVE, DOCKER))
    return made.write(tmp_path_factory.mktemp("bad") / "run")


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def first(run: Path, runtime: str = "docker") -> Path:
    """The record of the first trial of an arm."""
    paths = sorted(run.glob("trials/*-r1/record.json"))
    return next(p for p in paths if json.loads(p.read_text())["levels"]["runtime"] == runtime)


def change(path: Path, edit: Callable[[Document], Any]) -> Document:
    document: Document = json.loads(path.read_text())
    edit(document)
    synthetic.dump(path, document)
    return document


def told(run: Path) -> str:
    """What a reader is told on the terminal."""
    return "\n".join(terminal.summary(tables.build(load.load(run))))


@pytest.mark.parametrize("value", ["12.5", True, None, [1], math.nan])
def test_what_is_no_number_is_none(run: Path, value: object) -> None:
    change(first(run), lambda d: d["metrics"]["throughput"].update(value=value))
    with pytest.raises(SchemaError, match=r"throughput.*move .* away, and run the same command"):
        load.load(run)
    shutil.rmtree(first(run).parent)
    assert "11 of 12 slots" in told(run), "the rest is usable"


@pytest.mark.parametrize("key", ["repetition", "round", "attempt"])
@pytest.mark.parametrize("value", ["1", True, 1.0])
def test_what_counts_is_a_whole_number(run: Path, key: str, value: object) -> None:
    change(first(run), lambda d: d.update({key: value}))
    with pytest.raises(SchemaError, match=key):
        load.load(run)


@pytest.mark.parametrize("trial", ["../..", "../../etc", "a/b", ".hidden", ""])
def test_a_trial_that_is_named_as_a_path_is_refused(run: Path, trial: str) -> None:
    change(first(run), lambda d: d.update(trial=trial))
    with pytest.raises(SchemaError, match="a name is made of"):
        load.load(run)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d["clock"].update(finished=d["clock"]["launched"] - 1), "finished before"),
        (lambda d: d["image"].update(digest=""), "does not say which image"),
        (lambda d: d["levels"].update(batch_size=64), "the plan has other levels"),
        (lambda d: d.update(hosts=["node7"]), "ran on node7"),
    ],
)
def test_a_trial_that_contradicts_itself_or_the_plan_is_left_out_and_named(
    run: Path, edit: Callable[[Document], Any], words: str
) -> None:
    trial = change(first(run), edit)["trial"]
    said = told(run)
    assert f"Left out: {trial}, since" in said and words in said
    assert set(tables.build(load.load(run)).comparisons["n"]) == {5}


def test_copies_of_a_trial_outside_the_plan_are_left_out_and_named(run: Path) -> None:
    """Ten more trials would have made any interval as narrow as wanted."""
    path = first(run)
    for number in range(10, 20):
        name = f"{json.loads(path.read_text())['cell']}-r{number}"
        shutil.copytree(path.parent, path.parent.with_name(name))
        change(path.parent.with_name(name) / "record.json",
               lambda d, name=name, number=number: d.update(trial=name, repetition=number))  # type: ignore[misc]  # fmt: skip
    assert told(run).count("since the plan has no such trial") == 10
    assert set(tables.build(load.load(run)).comparisons["n"]) == {6}


def test_a_copy_that_keeps_its_name_is_not_where_it_belongs(run: Path) -> None:
    path = first(run)
    shutil.copytree(path.parent, path.parent.with_name("again-r1"))
    with pytest.raises(SchemaError, match="is not where it belongs"):
        load.load(run)


def test_a_run_of_which_nothing_can_be_used_is_refused(run: Path) -> None:
    for path in run.glob("trials/*/record.json"):
        change(path, lambda d: d["image"].update(digest=""))
    assert main(["show", str(run)]) == 2


def test_another_unit_on_one_arm_is_not_compared(run: Path) -> None:
    """It was +5,779 % once, improved."""
    for path in run.glob("trials/*/record.json"):
        document = json.loads(path.read_text())
        if document["levels"]["runtime"] == "docker":
            change(path, lambda d: d["metrics"]["throughput"].update(unit="images/min"))
    said = told(run)
    assert "since it is in 'images/min', and this metric is in images/s" in said
    assert "Throughput missing against measured" in said
    rows = tables.build(load.load(run)).comparisons.set_index("metric")
    assert rows.loc["throughput", "verdict"] == "too few trials"
    assert rows.loc["elapsed", "n"] == 6, "the rest is usable"


def test_a_run_that_is_in_another_unit_as_a_whole_is_read_as_it_says(run: Path) -> None:
    for path in run.glob("trials/*/record.json"):
        change(path, lambda d: d["metrics"]["throughput"].update(unit="images/min"))
    assert load.load(run).metrics.get("throughput").unit == "images/min"


@pytest.mark.parametrize("name", ["status", "case", "arm", "is_baseline", "model", "phase_input"])
def test_a_scalar_that_is_named_as_a_column_keeps_its_value_and_the_column(
    run: Path, name: str
) -> None:
    path = first(run)
    number = {name: {"value": 7.0, "unit": "1"}}
    trial = change(path, lambda d: d["metrics"].update(number))["trial"]
    built = tables.build(load.load(run))
    row = built.trials[built.trials["trial"] == trial].iloc[0]
    assert row[f"{name}_tf_image_classification"] == 7.0
    assert row["status"] == "ok" and row["model"] == "resnet50"
    assert set(built.comparisons["n"]) == {6}


@pytest.mark.parametrize("duration", [0.0, -1.0])
def test_steps_without_a_duration_are_left_out_and_named(run: Path, duration: float) -> None:
    path = first(run).with_name("steps.parquet")
    pd.read_parquet(path).assign(duration_s=duration).to_parquet(path)
    assert f"{path} is damaged: a step has no duration" in told(run)


def test_steps_that_contradict_the_metric_are_a_doubt(run: Path) -> None:
    """The record says twice the throughput that its steps show."""
    path = first(run)
    document = change(path, lambda d: d["metrics"]["step_median"].update(
        value=d["metrics"]["step_median"]["value"] / 2))  # fmt: skip
    flags = tables.build(load.load(run)).flags
    found = flags[flags["name"] == "contradiction"]
    assert list(found["trial"]) == [document["trial"]]
    assert "step_median" in found["detail"].iloc[0]


def test_a_file_that_was_half_written_is_left_out_and_named(run: Path) -> None:
    path = first(run).with_name("usage.parquet")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert f"Left out of the figures: {path} cannot be read" in told(run)


def test_clocks_that_jump_between_trials_change_no_figure(run: Path, whole: Path) -> None:
    """A host that was started anew counts from zero; UTC may be set back."""
    for number, path in enumerate(sorted(run.glob("trials/*/record.json"))):

        def jump(d: Document, by: float = 1e5 * (-1) ** number) -> None:
            d["clock"] = {key: value + by for key, value in d["clock"].items()}
            d["started"] = "1970-01-01T00:00:00Z"

        change(path, jump)  # fmt: skip
    jumped, plain = (tables.build(load.load(one)).comparisons for one in (run, whole))
    pd.testing.assert_frame_equal(jumped, plain)


def test_schemas_may_be_mixed(run: Path, whole: Path) -> None:
    """A run that was begun by an older Strata and ended by this one."""

    def older(document: Document) -> None:
        document["schema"] = 3
        del document["image"]["family"]

    change(first(run), older)  # fmt: skip
    mixed, plain = (tables.build(load.load(one)).comparisons for one in (run, whole))
    pd.testing.assert_frame_equal(mixed, plain)


def test_zeros_are_said_to_be_zeros(run: Path) -> None:
    change(first(run), lambda d: d["metrics"]["startup"].update(value=0.0))
    loaded = load.load(run)
    rows = stats.compare(matching.assign(loaded), list(loaded.metrics)).set_index("metric")
    assert math.isnan(rows.loc["startup", "ratio"])
    assert math.isfinite(rows.loc["startup", "difference_low"])
    assert rows.loc["startup", "verdict"] != "too few trials"


def test_a_formula_and_an_escape_reach_no_reader(run: Path) -> None:
    evil = '=HYPERLINK("http://x")\x1b[31m'

    def fail(document: Document) -> None:
        document.update(status="failed", reason={"cause": "exit", "message": evil})

    change(first(run), fail)  # fmt: skip
    said = told(run)
    assert "\x1b" not in said and r"\x1b[31m" in said
    sheet = export.csv(tables.build(load.load(run)).trials).decode()
    assert "'=HYPERLINK" in sheet and "\x1b" not in sheet and ",=HYPERLINK" not in sheet


def test_the_same_trial_twice_in_a_plan_counts_once(run: Path) -> None:
    def twice(plan: Document) -> None:
        plan["slots"].append(plan["slots"][0])

    change(run / "plan.json", twice)  # fmt: skip
    with pytest.raises(SchemaError, match="twice"):
        schema.read_plan(run)
