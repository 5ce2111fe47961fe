"""Each workload of the papers in small under each runtime, on rehearsal nodes. Half an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import lab
from tests.integration.lab import Lab, cells, folder, only, planned, records

__all__ = ["lab"]
pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]


def test_each_row_runs_on_nodes_under_each_runtime(
    lab: Lab, apptainer: None, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    # Past the fixture's patience, which is that of a test of the default command.
    running = lab.begin("rows", results)
    assert running.process.wait() == 0, running.text()[-4000:]
    assert only(results) == {} and cells(results) == planned(results)
    found = records(results).values()
    rows = {(r["levels"]["workload"], r["levels"]["runtime"]) for r in found}
    workloads = {workload for workload, _ in rows}
    assert rows == {
        (w, runtime) for w in workloads for runtime in ("native", "docker", "apptainer")
    }
    images = {(r["image"]["family"], r["image"]["digest"]) for r in found}
    assert len(images) == len({family for family, _ in images}), "one of each, under every runtime"
    run = folder(results)
    assert run and (run / "report/index.html").is_file()
    assert lab.left() == {}
