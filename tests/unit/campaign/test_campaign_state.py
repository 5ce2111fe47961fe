"""What the journal of a campaign says: time spent across crashes, and what is still to be done."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.errors import Refused

from campaign import __main__ as command
from campaign import definition, status
from campaign.drive import Drive
from campaign.state import Journal

RUN = {"experiment": "quick", "slice": "smoke", "testbed": "inventories/local"}
NAME = "c-01-quick-smoke"


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "c.yml"
    path.write_text(yaml.safe_dump({"name": "c", "runs": [RUN], **changes}))
    return path


def journal(folder: Path, *events: dict[str, Any]) -> Journal:
    """Of a campaign to which this happened."""
    made = Journal(folder / "campaigns" / "c")
    made.folder.mkdir(parents=True, exist_ok=True)
    made.path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return made


def run(state: str, at: float) -> dict[str, Any]:
    return {"event": "run", "run": NAME, "state": state, "at": at}


STARTED = {"event": "started", "at": 0.0, "alive": None}


def test_time_is_spent_while_a_run_is_under_way(tmp_path: Path) -> None:
    states = [run("running", 10), run("waiting", 20), run("running", 50), run("done", 55)]
    assert journal(tmp_path, STARTED, *states).spent(NAME) == 15


def test_a_crash_ends_the_time_spent_at_the_last_sign_of_life(tmp_path: Path) -> None:
    resumed = {"event": "started", "at": 9000.0, "alive": 110.0}
    states = [STARTED, run("running", 10), resumed, run("running", 9001), run("done", 9005)]
    assert journal(tmp_path, *states).spent(NAME) == 104


def test_after_a_crash_and_before_a_resumption_too(tmp_path: Path) -> None:
    made = journal(tmp_path, STARTED, run("running", 10))
    process = made.folder / "process.json"
    process.write_text(json.dumps({"host": os.uname().nodename, "pid": 1, "start": -1}))
    os.utime(process, (70, 70))
    assert made.spent(NAME) == 60
    with made.held() as alive:
        assert alive == 70
        made.beat()
        assert process.stat().st_mtime == pytest.approx(time.time(), abs=5)
    with made.held() as alive:
        assert alive is None, "it had ended in order"


def test_the_end_is_told_once(tmp_path: Path) -> None:
    touch = ["sh", "-c", f"echo told >> {tmp_path}/told"]
    campaign = definition.load(write(tmp_path, at_end=touch))
    journal(tmp_path, STARTED, run("running", 1), run("done", 2))
    for _ in range(2):
        assert Drive(campaign, tmp_path).run() == "done"
        assert (tmp_path / "told").read_text() == "told\n"


def test_when_the_campaigns_time_is_over_nothing_is_started(tmp_path: Path) -> None:
    campaign = definition.load(write(tmp_path, time_limit="1h"))
    made = journal(tmp_path, STARTED)
    assert Drive(campaign, tmp_path, say=lambda _: None).run() == "failed"
    assert made.state(NAME) == "out of time"
    assert not (made.folder / "runner").exists()


def test_a_command_may_be_one_line_and_must_be_there(tmp_path: Path) -> None:
    assert definition.load(write(tmp_path, at_end=["echo all done"])).command == [
        *("echo", "all", "done")
    ]
    with pytest.raises(Refused, match="at_end begins with a program"):
        definition.load(write(tmp_path, at_end=["no-such-program -s done"]))


def test_a_variable_of_the_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="strata_run is not among"):
        definition.load(write(tmp_path, runs=[{**RUN, "variables": {"strata_run": "mine"}}]))


def test_the_status_is_told_whatever_became_of_the_experiment(tmp_path: Path, capsys: Any) -> None:
    path = str(write(tmp_path, runs=[{**RUN, "experiment": "gone"}]))
    assert command.main(["run", path, f"--results={tmp_path}"]) == 2
    for name in ("status", "stop"):
        assert command.main([name, path, f"--results={tmp_path}"]) == 0
    assert "c-01-gone-smoke" in capsys.readouterr().out


def test_what_breaks_is_not_taken_for_an_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(status, "table", lambda *_: 1 / 0)
    assert command.main(["status", str(write(tmp_path))]) == command.BROKEN
