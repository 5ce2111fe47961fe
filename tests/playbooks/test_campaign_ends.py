"""Bad ends of a campaign's playbook, with real ansible-runner and real Ansible."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaign import definition
from campaign.drive import Drive
from campaign.state import Journal
from tests.conftest import PATIENCE_S

RUN = {"experiment": "quick", "slice": "smoke", "testbed": "inventories/local", "restarts": 0}
REPO = Path(__file__).parents[2]

SITE = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Do it
      ansible.builtin.command: sh {{ playbook_dir }}/do {{ strata_run }}
      args: {chdir: "{{ playbook_dir }}"}
"""
# The command itself, but on a project of a test.
COMMAND = """
import sys
from pathlib import Path
from campaign import __main__ as command, drive
file, results, project = sys.argv[1:]
command.Drive = lambda c, r, say: drive.Drive(c, r, Path(project), say)
sys.exit(command.main(["run", file, "--results", results]))
"""
# Like a host's lease: held by one playbook at a time.
LEASE = "exec 9>lock; flock -n 9 || { echo held >&2; exit 1; }\necho $1 >> started\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "inventories").mkdir(parents=True)
    python = f"ansible_python_interpreter={sys.executable}"
    (made / "inventories/local").write_text(f"localhost ansible_connection=local {python}\n")
    (made / "site.yml").write_text(SITE)
    for name in ("ansible.cfg", "callback_plugins"):
        (made / name).symlink_to(REPO / name)
    return made


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "c.yml"
    path.write_text(yaml.safe_dump({"name": "c", "pause": "1s", "runs": [RUN], **changes}))
    return path


def begin(file: Path, project: Path, *before: str) -> subprocess.Popen[str]:
    command = [*before, sys.executable, "-c", COMMAND, file, project.parent / "results", project]
    return subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True)


def until(seen: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_a_killed_campaign_left_is_ended_first(tmp_path: Path, project: Path) -> None:
    (project / "do").write_text(LEASE + "[ $(wc -l < started) = 2 ] || exec sleep 900\n")
    file = write(tmp_path)
    first = begin(file, project)
    until((project / "started").exists)
    first.kill()
    first.communicate()
    second = begin(file, project)
    said = second.communicate(timeout=PATIENCE_S)[0]
    assert second.returncode == 0, said
    assert (project / "started").read_text().split() == ["c-01-quick-smoke"] * 2


def test_a_closed_terminal_changes_nothing_under_nohup(tmp_path: Path, project: Path) -> None:
    (project / "do").write_text(LEASE + "sleep 2\n")
    process = begin(write(tmp_path), project, "nohup")
    until((project / "started").exists)
    process.send_signal(signal.SIGHUP)
    assert "c-01-quick-smoke: done" in process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 0


def test_one_testbed_is_one_however_it_is_written(tmp_path: Path, project: Path) -> None:
    (project / "do").write_text(LEASE + "sleep 2\n")
    runs = [RUN, {**RUN, "testbed": "inventories/../inventories/local"}]
    drive = Drive(definition.load(write(tmp_path, runs=runs)), tmp_path / "results", project)
    assert drive.run() == "done"


def test_what_failed_is_named_and_may_be_asked_for_again(tmp_path: Path, project: Path) -> None:
    (project / "do").write_text("echo the disk is full >&2; exit 1\n")
    campaign = definition.load(write(tmp_path))
    drive = Drive(campaign, tmp_path / "results", project, say=lambda _: None)
    assert drive.run() == "failed"
    events = Journal(tmp_path / "results/campaigns/c").events()
    why = [event["why"] for event in events if event.get("state") == "failed"]
    assert why[0].startswith("localhost: Do it: ")
    (project / "do").write_text("true\n")
    assert drive.run() == "failed", "by itself it is not started again"
    assert drive.run(again=True) == "done"


def test_what_breaks_one_run_leaves_the_others(tmp_path: Path, project: Path) -> None:
    (project / "do").write_text("true\n")
    campaign = definition.load(write(tmp_path, runs=[RUN, RUN]))
    runner = tmp_path / "results/campaigns/c/runner"
    runner.mkdir(parents=True)
    (runner / campaign.results(0)).write_text("a file where a folder is wanted")
    drive = Drive(campaign, tmp_path / "results", project, say=lambda _: None)
    assert drive.run() == "failed"
    assert [drive.journal.state(campaign.results(n)) for n in (0, 1)] == ["failed", "done"]
