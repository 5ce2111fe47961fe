"""The page that `compare` leaves."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import synthetic
from synthetic import DOCKER, NATIVE, Effect, Synthetic

from analysis import load, page, tables, two_runs_page


def test_the_page_stands_with_the_second_run_and_leads_to_the_records_of_both(
    tmp_path: Path,
) -> None:
    cells = synthetic.cells(NATIVE, DOCKER)
    before = Synthetic(cells=cells, repeats=6).write(tmp_path / "before")
    host = {**synthetic.HOST, "kernel.release": "<b>6.8</b>"}
    slower = {"docker": Effect(1.1)}
    made = Synthetic(cells=cells, repeats=6, effects=slower, host=host)
    after = made.write(tmp_path / "after")
    path = two_runs_page.write([load.load(before)], [load.load(after)])
    html = path.read_text()
    assert path == after / "report" / "against-before.html"
    links = [unquote(link) for link in re.findall(r'<a href="([^"]+)"', html)]
    assert len(links) == len(set(links)) * 10, "each record in each of ten tables"
    assert {(path.parent / link).resolve() for link in links} == {
        record for run in (before, after) for record in run.glob("trials/*/record.json")
    }
    assert "degraded" in html
    assert "1 confound." in html
    assert "<b>6.8" not in html
    assert "&lt;b&gt;6.8" in html
    assert not re.search(r'(src|href)="https?:', html)


def test_an_a_a_comparison_is_called_one_and_a_platform_is_not(tmp_path: Path) -> None:
    cells = [
        *synthetic.cells(NATIVE, labels=("first", "again")),
        *synthetic.cells(DOCKER, labels=("first",)),
    ]
    baseline = {"runtime": "native", "label": "first"}
    run = Synthetic(cells=cells, baseline=baseline, repeats=4).write(tmp_path / "run")
    rows = page.answers(tables.build(load.load(run)))
    assert {row["arm"]: row["is_control"] for row in rows} == {
        "docker/bridge first": False,
        "native/host again": True,
    }
