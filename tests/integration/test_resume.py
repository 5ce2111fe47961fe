"""Nothing measured is ever lost: kill -9 of the whole run, then the same command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EXPERIMENTS, LOCAL, REPO, environment, playbook

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]


def command(results: Path) -> list[str]:
    given = [f"-estrata_experiment={EXPERIMENTS}/spin.yml", f"-estrata_results={results}"]
    return ["ansible-playbook", "site.yml", *LOCAL, *given]


def records(results: Path) -> dict[str, dict[str, Any]]:
    paths = results.glob("spin-*/trials/*/record.json")
    return {path.parent.name: json.loads(path.read_text()) for path in paths}


def run_folder(results: Path) -> Path:
    folders = [path for path in results.iterdir() if path.name.startswith("spin-")]
    assert len(folders) == 1, folders
    return folders[0]


def kill_once(results: Path, after: float, opened: bool, whole_group: bool) -> None:
    """Start the run and end it by SIGKILL: the controller alone, or all of it.

    `after` seconds count from the start, or, with `opened`, from the opening of the run.
    """
    process = subprocess.Popen(
        command(results),
        cwd=REPO,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while opened and not list(results.glob("*/run.json")) and process.poll() is None:
            time.sleep(0.05)
        process.wait(after)
    except subprocess.TimeoutExpired:
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_run_is_resumed_by_the_same_command(deployed: None, tmp_path: Path) -> None:
    """The controller alone is killed before the run is opened, and all of it while the run goes."""
    kept: dict[str, dict[str, Any]] = {}
    for opened in (False, True):
        kill_once(tmp_path, 3.0, opened, whole_group=opened)
        now = records(tmp_path)
        for trial, record in kept.items():
            assert now[trial] == record, "a record was lost or changed"
        kept = now
    opened = bool(list(tmp_path.glob("*/run.json")))
    done = playbook(*command(tmp_path)[1:2], *command(tmp_path)[4:])
    assert opened
    assert "resuming" in done.stdout
    final = records(tmp_path)
    assert {trial: final[trial] for trial in kept} == kept
    assert all(record["status"] == "ok" for record in final.values())
    slots = json.loads((run_folder(tmp_path) / "plan.json").read_text())["slots"]
    planned = {trial["trial"]: trial["cell"] for slot in slots for trial in slot["trials"]}
    assert {trial: record["cell"] for trial, record in final.items()} == planned
