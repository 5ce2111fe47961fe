"""Clusters, neighbours and grids, from records to tables for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic import NATIVE, Synthetic, cells

from analysis import report, scenarios, tables, terminal
from analysis.load import load, steps
from analysis.metrics import DASH
from schema import documents


def built(folder: Path, change: Any, **levels: Any) -> tables.Tables:
    """A run of six trials a cell whose records `change` has changed."""
    every = [{**cell, **{k: v[n] for k, v in levels.items()}} for n in range(count(levels))
             for cell in cells(NATIVE)]  # fmt: skip
    Synthetic(every, baseline={}, factors=list(levels)).write(folder)
    for path in sorted(folder.glob("trials/*/record.json")):
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
    return tables.build(load(folder))


def count(levels: dict[str, list[Any]]) -> int:
    return len(next(iter(levels.values())))


UNITS = {
    **{"limit": "images/s", "throughput": "images/s", "goodput": "bytes/s"},
    **dict.fromkeys(("exchange", "skew", "run_time", "time_delta"), "s"),
}


def put(document: dict[str, Any], **values: float) -> None:
    found = {k: {"value": v, "unit": UNITS.get(k, "1")} for k, v in values.items()}
    document["metrics"] |= found


def test_hosts_that_were_made_are_told_with_what_they_took(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert built(folder, lambda _: None, workers=[1]).lives.empty
    told = {
        **{"host": "vm1", "provider": "openstack", "instance": "2ba4", "leaving": ""},
        **{"asked": "2026-01-01T00:00:00.000Z", "active": "2026-01-01T00:00:08.250Z"},
        "reached": "2026-01-01T00:01:01.000Z",
    }
    lives = {"schema": documents.SCHEMA, "lives": [told]}
    (folder / "lives.json").write_text(json.dumps(lives))
    found = tables.build(load(folder))
    (table,) = scenarios.tables(found)
    assert table.rows == [("vm1", "openstack", "2ba4", "8.2 s", "61.0 s", DASH)]
    report.make(folder)
    assert "vm1,openstack,2ba4,8.25,61.0,\n" in (folder / "report/lives.csv").read_text()
    assert "61.0&nbsp;s" in (folder / "report/index.html").read_text()

    lives["lives"][0]["gone"] = "yesterday"
    (folder / "lives.json").write_text(json.dumps(lives))
    with pytest.raises(documents.SchemaError, match=r"lives\.json is damaged: lives\.0\.gone"):
        load(folder)


def test_a_cluster_stands_beside_its_limit(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        if document["levels"]["workers"] == 2:
            put(document, limit=200.0, of_limit=0.9, goodput=117e6, exchange=0.5, skew=0.01)
            put(document, straggler=1.05, throughput=180.0)

    found = built(tmp_path / "run", change, workers=[1, 2])
    (table,) = scenarios.tables(found)
    assert table.title == "How near the link"
    (row,) = table.rows
    assert row[1:] == ("workers 2", "180.0 images/s", "200.0 images/s", "90 %", "117.0 MB/s",
                       "500.0 ms", "10.00 ms", "1.05")  # fmt: skip
    report.make(tmp_path / "run")
    page = (tmp_path / "run/report/index.html").read_text()
    assert "How near the link" in page and "117.0 MB/s" in page
    assert any("117.0 MB/s" in line for line in terminal.summary(found))


def test_steps_are_the_chiefs(tmp_path: Path) -> None:
    found = built(tmp_path / "run", lambda _: None, workers=[2])
    path = next((tmp_path / "run").glob("trials/*/steps.parquet"))
    frame = pd.read_parquet(path)
    pd.concat([frame, frame.assign(worker=1, duration_s=99.0)]).to_parquet(path)
    assert steps(found.loaded)[0]["duration_s"].max() < 99


def test_a_neighbour_is_shown_with_its_rate(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        if document["levels"]["beside"]:
            rate = {"value": 12.5, "unit": "images/s"}
            document["beside"] = {"trial": "x", "overlap": 0.97, "rate": rate}

    (table,) = scenarios.tables(built(tmp_path / "run", change, beside=[None, "alexnet_512"]))
    (row,) = table.rows
    assert row[1:3] == ("alexnet_512", "97 %") and "12.5 images/s" in row[3]


def test_the_best_and_the_worst_of_a_grid(tmp_path: Path) -> None:
    times = {(0, 1): 22.0, (1, 2): 17.0, (1, 4): 9.0, (2, 2): 40.0, (2, 4): 30.0}

    def change(document: dict[str, Any]) -> None:
        levels = document["levels"]
        put(document, run_time=times[(levels["servers"], levels["workers"])])
        put(document, time_delta=0.02, accuracy_max=0.97, accuracy_std=0.01)

    sizes = list(times)
    (table,) = scenarios.tables(
        built(
            tmp_path / "run", change,
            servers=[s for s, _ in sizes], workers=[w for _, w in sizes],
            distribution=["none"] + ["ps_sync"] * 4, placement=["spread"] + ["together"] * 4,
        )
    )  # fmt: skip
    shown = [row[:5] for row in table.rows]
    assert shown == [
        ("alone", DASH, DASH, "1", "22.00 s"),
        ("together ps_sync", "best", "1", "4", "9.000 s"),
        ("together ps_sync", "worst", "2", "2", "40.00 s"),
    ]


def test_a_trial_that_was_tried_again_counts_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Synthetic(cells(NATIVE), failed={0: "gone"}).write(folder)
    first = next(p for p in folder.glob("trials/*/record.json")
                 if json.loads(p.read_text())["status"] == "failed")  # fmt: skip
    good = next(p for p in folder.glob("trials/*/record.json") if p != first)
    again = json.loads(good.read_text()) | {"trial": first.parent.name, "attempt": 2}
    second = folder / "trials" / f"{first.parent.name}.a2"
    second.mkdir()
    (second / "record.json").write_text(json.dumps(again))
    found = load(folder)
    assert (found.trials["status"] == "ok").all() and len(found.trials) == 6
    assert found.progress() == (6, 6)
    assert "1 trials were run again, since they had failed" in found.notices()[0]
    report.make(folder)
    page = (folder / "report/index.html").read_text()
    assert f"../trials/{first.parent.name}.a2/record.json" in page
