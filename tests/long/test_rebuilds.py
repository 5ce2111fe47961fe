"""Rebuilds as a factor, inside site.yml: killed in the middle of one, resumed, told on the page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from schema import lock
from tests.conftest import REPO, environment
from tests.integration import made
from tests.integration.lab import Lab, folder, journal, whole
from tests.integration.made import HOST, Made

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]


@pytest.fixture
def testbed(deployed: None, tmp_path: Path) -> Iterator[Made]:
    with made.testbed(tmp_path / "testbed", "rebuilds", "10.201.244") as found:
        yield found


def events(results: Path, *names: str) -> list[dict[str, object]]:
    return [event for event in journal(results) if event["event"] in names]


def test_a_run_over_rebuilds_goes_on_where_a_rebuild_was_killed(
    testbed: Made, tmp_path: Path
) -> None:
    results, lab = tmp_path / "results", Lab(testbed.inventory, [HOST], {})
    running = lab.begin("rebuilds", results)
    running.until(lambda: events(results, "rebuild_begun"), "the begin of a rebuild")
    running.until(lambda: not testbed.instance(), "a testbed that is taken down")
    running.kill()
    before = {path: path.read_bytes() for path in results.glob("*/trials/*/record.json")}
    assert len(before) == 4, "half of the repeats are on the first build"

    lab.site("rebuilds", results)
    assert whole(results)
    assert all(path.read_bytes() == text for path, text in before.items())
    said = [event["event"] for event in events(results, "rebuild_begun", "rebuilt")]
    assert said == ["rebuild_begun", "rebuild_begun", "rebuilt"]
    names = [event["event"] for event in journal(results)]
    done = [n for n, name in enumerate(names) if name == "slot_finished"]
    assert done[3] < names.index("rebuilt") < done[4]

    run = folder(results)
    assert run
    (again,) = lock.read_rebuilds(run)
    assert again.differences == [] and again.instances == {HOST: testbed.instance()}
    opened = json.loads((run / "run.json").read_text())["hosts"][HOST]["instance"]
    assert opened != testbed.instance()
    show = [sys.executable, "-m", "analysis", "show", str(run)]
    told = subprocess.run(
        show, cwd=REPO, env=environment(), capture_output=True, text=True, check=True
    )
    assert "Between rebuilds of the testbed, and within them" in told.stdout
    assert "Where the next hour buys most" in told.stdout
