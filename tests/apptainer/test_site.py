"""All stages with Apptainer beside native and Docker: a loop and a small training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from strata.runtimes.apptainer import installation

from tests.conftest import EXPERIMENTS, playbook

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]


def test_three_runtimes_run_the_same_bits(deployed: None, tmp_path: Path) -> None:
    asked = [f"-estrata_experiment={EXPERIMENTS}/sif.yml", f"-estrata_results={tmp_path}"]
    playbook("site.yml", *asked)
    (run,) = tmp_path.iterdir()
    records = [json.loads(path.read_text()) for path in run.glob("trials/*/record.json")]
    assert [record["reason"] for record in records if record["status"] != "ok"] == []
    used: dict[tuple[str, str], set[str]] = {}
    for record in records:
        levels, digest = record["levels"], record["image"]["digest"]
        used.setdefault((levels["workload"], levels["runtime"]), set()).add(digest)
    assert len(used) == 6
    for workload in ("spin", "tf_image_classification"):
        same = [used[workload, runtime] for runtime in ("native", "docker", "apptainer")]
        assert same[0] == same[1] == same[2] and len(same[0]) == 1
    told = json.loads((run / "hosts/localhost.json").read_text())["values"]
    assert told["apptainer.version"][0].isdigit()
    assert told["apptainer.image"].startswith("squashfuse") == installation.mounts_images()
    assert "apptainer" in (run / "report/index.html").read_text()
