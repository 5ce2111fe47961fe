"""From a run folder to frames, and which trials stand against which."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import synthetic
from synthetic import DOCKER, NATIVE, Synthetic, image

from analysis import load, matching, tables
from analysis.errors import EmptyRun, UnequalDigests

CELLS = synthetic.cells(NATIVE, DOCKER, models=("resnet50", "alexnet"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = Synthetic(cells=CELLS, repeats=3, failed={5: "no module named tensorflow"})
    return made.write(tmp_path / "run")


def change(path: Path, **values: object) -> None:
    synthetic.dump(path, {**json.loads(path.read_text()), **values})


def test_a_row_a_trial_with_levels_metrics_and_phases_as_columns(folder: Path) -> None:
    trials = load.load(folder).trials
    assert len(trials) == len(CELLS) * 3
    assert set(trials["model"]) == {"resnet50", "alexnet"}
    record = json.loads((folder / "trials" / trials["trial"][0] / "record.json").read_text())
    assert trials["throughput"][0] == record["metrics"]["throughput"]["value"]
    assert trials["phase_compute"][0] == record["phases"]["compute"]
    clock = record["clock"]
    assert trials["duration_s"][0] == clock["finished"] - clock["launched"]


def of_schema_3(folder: Path) -> None:
    """Make a run to what it was before images had families."""
    for path in folder.rglob("*.json"):
        document = json.loads(path.read_text())
        for found in document.pop("images", [document.get("image")]):
            if found:
                document["image"] = {key: found[key] for key in ("kind", "digest")}
        for slot in document.get("slots", []):
            for trial in slot["trials"]:
                del trial["family"]
        synthetic.dump(path, {**document, "schema": 3})


def test_a_run_of_schema_3_is_read_as_one_of_one_family(folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    of_schema_3(old)
    before, now = (load.load(run) for run in (old, folder))
    assert (before.run, before.plan) == (now.run, now.plan)
    assert before.trials.equals(now.trials)


def test_a_run_of_schema_2_is_read_as_it_was(folder: Path, tmp_path: Path) -> None:
    """Its metrics were known to the analysis, and the items of its steps were called images."""
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    of_schema_3(old)
    for path in old.rglob("*.json"):
        change(path, schema=2)
    document = json.loads((old / "run.json").read_text())
    del document["workloads"]
    synthetic.dump(old / "run.json", document)
    for path in old.glob("trials/*/steps.parquet"):
        pd.read_parquet(path).rename(columns={"items": "images"}).to_parquet(path)
    before, now = (load.load(run) for run in (old, folder))
    assert {metric.name for metric in before.metrics if metric.name in before.trials} == {
        metric.name for metric in now.metrics if metric.name in now.trials
    }
    assert all(metric == now.metrics.get(metric.name) for metric in before.metrics)
    assert before.trials.equals(now.trials)
    assert load.steps(before)[0].equals(load.steps(now)[0])
    assert set(load.steps(before)[0]["items"]) == {synthetic.BATCH}


def test_a_metric_that_nobody_declared_is_shown_and_compared_with_nothing(folder: Path) -> None:
    path = next(folder.glob("trials/*/record.json"))
    found = json.loads(path.read_text())["metrics"]
    change(path, metrics=found | {"fsync_latency": {"value": 0.5, "unit": "s"}})
    metric = load.load(folder).metrics.get("fsync_latency")
    assert (metric.label, metric.unit, metric.better) == ("Fsync latency", "s", "")


def test_trials_stand_in_the_order_of_the_plan(folder: Path) -> None:
    loaded = load.load(folder)
    planned = [trial.trial for slot in loaded.plan.slots for trial in slot.trials]
    assert list(loaded.trials["trial"]) == planned


def test_a_failed_trial_is_a_row_with_its_reason_and_in_no_figure(folder: Path) -> None:
    trials = load.load(folder).trials
    failed = trials[trials["status"] == "failed"]
    assert list(failed["message"]) == ["no module named tensorflow"]
    assert list(failed["cause"]) == ["exit"]
    assert failed["trial"].iloc[0] not in set(load.usable(trials)["trial"])


def test_background_and_void_trials_are_kept_and_not_used(folder: Path) -> None:
    paths = sorted(folder.glob("trials/*/record.json"))
    whole = load.usable(load.load(folder).trials)
    ok = [path for path in paths if path.parent.name in set(whole["trial"])]
    change(ok[0], role="background")
    change(ok[1], status="void")
    trials = load.load(folder).trials
    assert len(load.usable(trials)) == len(whole) - 2
    assert len(trials) == len(paths)


def test_steps_and_usage_belong_to_the_usable_trials(folder: Path) -> None:
    loaded = load.load(folder)
    used = set(load.usable(loaded.trials)["trial"])
    steps, usage = load.steps(loaded)[0], load.usage(loaded)[0]
    assert set(steps["trial"]) == set(usage["trial"]) == used
    assert steps.groupby("trial")["step"].count().unique().tolist() == [10 + 30]
    assert usage["t"].min() == pytest.approx(0.0)


def test_files_that_are_missing_leave_a_smaller_frame(folder: Path) -> None:
    paths = sorted(folder.glob("trials/*/steps.parquet"))
    paths[0].unlink()
    loaded = load.load(folder)
    assert paths[0].parent.name not in set(load.steps(loaded)[0]["trial"])
    for path in [*paths[1:], *folder.glob("trials/*/usage.parquet")]:
        path.unlink()
    assert load.steps(loaded)[0].empty
    assert load.usage(loaded)[0].empty


def rows(path: Path, **columns: object) -> None:
    """The file with other columns; None takes one away."""
    frame = pd.read_parquet(path).assign(**columns)
    frame.drop(columns=[name for name in columns if columns[name] is None]).to_parquet(path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(b"PAR1 and then nothing"), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "cannot be read"),
        (lambda path: path.write_bytes(b""), "cannot be read"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "not an ordinary file"),
        (lambda path: (path.unlink(), path.symlink_to(path.name)), "not an ordinary file"),
        (lambda path: (path.unlink(), path.mkdir()), "not an ordinary file"),
        (lambda path: rows(path, duration_s=float("nan")), "not every row has a number"),
        (lambda path: rows(path, mono=float("inf")), "not every row has a number"),
        (lambda path: rows(path, worker=None), "not every row has a number 'worker'"),
        (lambda path: rows(path, step="one"), "not every row has a number 'step'"),
        (lambda path: rows(path, loss="low"), "'loss' holds other things than numbers"),
    ],
)
def test_a_parquet_file_that_cannot_be_read_is_left_out_and_named(
    folder: Path, damage: Callable[[Path], object], words: str
) -> None:
    path = sorted(folder.glob("trials/*/steps.parquet"))[0]
    damage(path)
    built = tables.build(load.load(folder))
    assert path.parent.name not in set(built.steps["trial"])
    assert len(set(built.steps["trial"])) == len(built.usable) - 1
    (notice,) = [each for each in built.notices() if each.startswith("Left out of")]
    assert str(path) in notice and words in notice


def test_a_run_that_is_not_complete_says_so(folder: Path) -> None:
    assert load.load(folder).notices() == []
    for path in sorted(folder.glob("trials/*"))[:4]:
        shutil.rmtree(path)
    assert load.load(folder).notices() == ["This run is not complete: 8 of 12 slots have finished."]


def test_a_trial_that_a_kill_left_half_stored_is_not_there(folder: Path) -> None:
    path = sorted(folder.glob("trials/*"))[0]
    path.rename(path.parent / f".{path.name}.part")
    assert path.name not in set(load.load(folder).trials["trial"])


def test_a_run_without_records_is_empty_and_the_next_step_is_named(folder: Path) -> None:
    shutil.rmtree(folder / "trials")
    with pytest.raises(EmptyRun, match="no finished trial yet; run the same command"):
        load.load(folder)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("image", image("sha256:" + "b" * 64), "unequal workload images"),
        ("dataset", {**synthetic.DATASET, "digest": "sha256:" + "c" * 64}, "unequal data sets"),
    ],
)
def test_unequal_digests_are_refused_with_a_trial_of_each(
    folder: Path, part: str, value: dict[str, str], message: str
) -> None:
    loaded = load.load(folder)
    load.check_digests(loaded.trials)
    trial = load.usable(loaded.trials)["trial"].iloc[-1]
    change(folder / "trials" / trial / "record.json", **{part: value})
    with pytest.raises(UnequalDigests, match=message) as caught:
        load.check_digests(load.load(folder).trials)
    assert trial in str(caught.value)


def test_trials_of_several_families_have_an_image_of_each(folder: Path) -> None:
    """But one workload has one image, in whichever family it is, with each framework."""
    trials = load.load(folder).trials
    cell = trials["cell"].iloc[0]
    of_tools = {**image("sha256:" + "b" * 64), "family": "tools"}
    for trial in trials.loc[trials["cell"] == cell, "trial"]:
        change(folder / "trials" / trial / "record.json", image=of_tools)
    with pytest.raises(UnequalDigests, match="unequal workload images"):
        load.check_digests(load.load(folder).trials)
    several = load.load(folder).trials
    several["framework"] = (several["cell"] == cell).map({True: "jax", False: "tensorflow"})
    load.check_digests(several)
    mixed = load.load(folder).trials
    mixed.loc[mixed["cell"] == cell, "workload"] = "another"
    load.check_digests(mixed)


def test_trials_without_data_stand_beside_trials_with(folder: Path) -> None:
    trial = load.load(folder).trials["trial"].iloc[0]
    change(folder / "trials" / trial / "record.json", dataset=None)
    load.check_digests(load.load(folder).trials)


def test_a_runtime_is_compared_together_with_the_network_it_implies(folder: Path) -> None:
    trials = matching.assign(load.load(folder))
    assert matching.order(trials) == ["bare_metal/native/host", "bare_metal/docker/bridge"]
    assert set(trials["short"]) == {"native/host", "docker/bridge"}
    assert set(trials["case"]) == {"resnet50", "alexnet"}
    assert trials.groupby("match")["case"].nunique().eq(1).all()
    assert trials.groupby("match")["arm"].nunique().eq(2).all()
    assert set(trials.loc[trials["is_baseline"], "runtime"]) == {"native"}


def test_a_label_is_an_arm_of_its_own_when_the_baseline_names_it(tmp_path: Path) -> None:
    cells = synthetic.cells(NATIVE, labels=("first", "again"))
    made = Synthetic(cells=cells, baseline={"runtime": "native", "label": "first"}, repeats=1)
    trials = matching.assign(load.load(made.write(tmp_path / "run")))
    assert matching.order(trials) == [
        "bare_metal/native/host first",
        "bare_metal/native/host again",
    ]
    assert trials["match"].nunique() == 1


def test_numbers_among_the_levels_bear_their_names(tmp_path: Path) -> None:
    small, large = (
        {**cell, "batch_size": size} for size in (8, 64) for cell in synthetic.cells(NATIVE)
    )
    made = Synthetic(cells=[small, large], repeats=1)
    trials = matching.assign(load.load(made.write(tmp_path / "run")))
    assert list(trials["case"]) == ["batch_size 8", "batch_size 64"]
    assert trials["match"].nunique() == 2
