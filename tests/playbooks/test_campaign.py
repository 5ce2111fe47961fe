"""A campaign over Strata's own playbooks on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from campaign import definition, status
from campaign.drive import Drive
from tests.conftest import EXPERIMENTS

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]


def test_a_run_leaves_the_same_folders_as_by_hand(deployed: None, tmp_path: Path) -> None:
    run = {
        **{"experiment": f"{EXPERIMENTS}/spin.yml", "slice": "native"},
        **{"testbed": "inventories/local", "retry": ["host_lost"]},
    }
    file = tmp_path / "c.yml"
    file.write_text(yaml.safe_dump({"name": "c", "runs": [run]}))
    campaign = definition.load(file)
    said: list[str] = []
    assert Drive(campaign, tmp_path, say=said.append).run() == "done", said
    folder = tmp_path / campaign.results(0)
    records = [json.loads(p.read_text()) for p in folder.glob("trials/*/record.json")]
    assert [record["status"] for record in records] == ["ok", "ok"]
    assert (folder / "report/index.html").exists()
    log = tmp_path / f"campaigns/c/runner/{folder.name}/artifacts/001/stdout"
    assert "trial 1 of 2" in log.read_text(), "people's progress lines are in the artefacts"
    lines = status.table(campaign, tmp_path)
    assert lines[2].split()[1:5] == ["done", "2", "of", "2"]
