"""All stages with Apptainer beside native and Docker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from strata.runtimes.apptainer import installation

from tests.conftest import EXPERIMENTS, playbook

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]
RUNTIMES = ("native", "docker", "apptainer")


def run_the_same_bits(experiment: str, results: Path) -> None:
    """Run an experiment, and see that it had one image under every runtime."""
    asked = [f"-estrata_experiment={EXPERIMENTS}/{experiment}.yml", f"-estrata_results={results}"]
    playbook("site.yml", *asked)
    (run,) = results.iterdir()
    records = [json.loads(path.read_text()) for path in run.glob("trials/*/record.json")]
    assert [record["reason"] for record in records if record["status"] != "ok"] == []
    assert {record["levels"]["runtime"] for record in records} == set(RUNTIMES)
    assert len({record["image"]["digest"] for record in records}) == 1
    told = json.loads((run / "hosts/localhost.json").read_text())["values"]
    assert told["apptainer.version"][0].isdigit()
    assert told["apptainer.image"].startswith("squashfuse") == installation.mounts_images()
    assert "apptainer" in (run / "report/index.html").read_text()


def test_three_runtimes_run_the_same_bits(deployed: None, tmp_path: Path) -> None:
    run_the_same_bits("sif", tmp_path)
