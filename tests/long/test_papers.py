"""The papers' experiments and campaigns in their smallest slice, from site.yml to the page, here.

Half an hour: their image families are made, JAX's too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaign import definition
from campaign.drive import Drive
from controller import experiment
from tests.conftest import REPO

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]
# What is in no campaign, and the slice that is no smoke.
ALONE = ("wsu2018", "wsu2018_sysbench", "mitll2019", "ibm2018_all_reduce")
SLICES = {"wsu2018": "corners"}


def smallest(names: list[str]) -> list[dict[str, str]]:
    """A run of each experiment in its smallest slice."""
    return [
        {"experiment": name, "slice": SLICES.get(name, "smoke"), "testbed": "inventories/local"}
        for name in dict.fromkeys(names)
    ]


def shipped(name: str) -> list[str]:
    """The experiments of a campaign."""
    given = yaml.safe_load((REPO / f"campaigns/{name}.yml").read_text())
    return [run["experiment"] for run in given["runs"]]


def ends_well(names: list[str], folder: Path) -> None:
    """Each run's trials ended well, and its page stands."""
    runs = smallest(names)
    (folder / "c.yml").write_text(yaml.safe_dump({"name": "c", "runs": runs}))
    campaign = definition.load(folder / "c.yml")
    said: list[str] = []
    assert Drive(campaign, folder, say=said.append).run() == "done", said
    for number, run in enumerate(runs):
        told(folder / campaign.results(number), run)


def told(run: Path, asked: dict[str, str]) -> None:
    records: list[dict[str, Any]] = [
        json.loads(path.read_text()) for path in run.glob("trials/*/record.json")
    ]
    assert [record["reason"] for record in records if record["status"] != "ok"] == [], asked
    slots = json.loads((run / "plan.json").read_text())["slots"]
    assert len(records) == sum(len(slot["trials"]) for slot in slots) > 0, asked
    title = experiment.load(REPO / f"experiments/{asked['experiment']}.yml", asked["slice"]).title
    assert f"<h1>{title}" in (run / "report/index.html").read_text(), asked


@pytest.mark.parametrize("name", ["hkbu2017", "ibm2018"])
def test_a_campaign_in_small(name: str, tmp_path: Path) -> None:
    ends_well(shipped(name), tmp_path)


@pytest.mark.parametrize("name", ALONE)
def test_an_experiment_in_small(name: str, tmp_path: Path) -> None:
    ends_well([name], tmp_path)
