"""A trial beside which something else takes the CPUs is void, and is run again with its pair."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.burner import Burner
from tests.conftest import LOCAL, PATIENCE_S, REPO, environment

pytestmark = [pytest.mark.root, pytest.mark.image]
# With a rule that no process which takes what it can get of a CPU stays below.
ASKED = {
    **{"name": "shaken", "title": "Shaken", "workload": "spin", "repeats": 1},
    "factors": {"runtime": ["native"], "label": ["a", "b"]},
    "options": {"steps": 10, "warmup_steps": 1, "work": 300_000},
    "baseline": {"label": "a"},
    "disturbed": {"others": 0.01, "again": 1, "rest": "1s"},
}


def events(results: Path) -> list[dict[str, Any]]:
    lines = [line for path in results.glob("*/journal.jsonl") for line in path.open()]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_for(results: Path, process: subprocess.Popen[str], event: str, times: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while [one["event"] for one in events(results)].count(event) < times:
        assert process.poll() is None and time.monotonic() < deadline, f"no {event}"
        time.sleep(0.05)


def test_a_disturbed_trial_is_void_and_run_again_with_its_pair(
    deployed: None, tmp_path: Path
) -> None:
    (tmp_path / "shaken.yml").write_text(yaml.safe_dump(ASKED))
    results = tmp_path / "results"
    asked = [f"-estrata_experiment={tmp_path}/shaken.yml", f"-estrata_results={results}"]
    process = subprocess.Popen(
        ["ansible-playbook", "site.yml", *LOCAL, *asked],
        **{"cwd": REPO, "env": environment(), "stdout": subprocess.PIPE, "text": True},
    )
    try:
        wait_for(results, process, "warmed_up", 1)
        with Burner():
            wait_for(results, process, "slot_finished", 2)
    finally:
        said = process.communicate()[0]
    assert process.returncode == 0, said
    assert "its pair is run again: attempt 2 of at most 2" in said
    (run,) = results.iterdir()
    records = {
        path.parent.name: json.loads(path.read_text()) for path in run.glob("*/*/record.json")
    }
    first = {name: record for name, record in records.items() if record["attempt"] == 1}
    assert {name.removesuffix(".a2") for name in records} == set(first)
    assert (len(first), len(records)) == (2, 4), "both arms, and each of them twice"
    for record in first.values():
        assert (record["status"], record["reason"]["cause"]) == ("void", "disturbed")
        assert record["disturbance"]["others"] > 0.01
        assert record["metrics"]["rate"]["value"] > 0, "what it measured stays"
    order = [event["slot"] for event in events(results) if event["event"] == "slot_started"]
    assert order == ["s0001", "s0002"] * 2
    told = [event["event"] for event in events(results)][:3]
    assert told == ["opened", "rested", "warmed_up"], "before the first trial"
