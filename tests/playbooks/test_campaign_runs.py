"""Campaigns under way: crashes, signals, limits; with real ansible-runner and real Ansible."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.errors import Refused

from campaign import definition, play, status
from campaign.drive import Drive
from campaign.state import Journal
from tests.conftest import PATIENCE_S, REPO

RUN = {"experiment": "quick", "slice": "smoke", "testbed": "inventories/local"}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "c.yml"
    path.write_text(yaml.safe_dump({"name": "c", "runs": [RUN], **changes}))
    return path


# With a project whose site.yml does what a test asks for.

SITE = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.shell: |
        echo {{ strata_run }} >> {{ playbook_dir }}/started
        {{ lookup('ansible.builtin.file', playbook_dir ~ '/do') }}
"""
# The shells of these tests do not end when they are asked to.
GRACE_S = 5.0
DRIVER = f"""
import signal, sys
from pathlib import Path
from campaign import definition, play
from campaign.drive import Drive
play.GRACE_S = {GRACE_S}
campaign = definition.load(Path(sys.argv[1]))
drive = Drive(campaign, Path(sys.argv[2]), Path(sys.argv[3]))
signal.signal(signal.SIGTERM, lambda *_: drive.stop("SIGTERM"))
print(drive.run(), flush=True)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "inventories").mkdir(parents=True)
    for name in ("local", "rehearsal"):
        python = f"ansible_python_interpreter={sys.executable}"
        (made / "inventories" / name).write_text(f"localhost ansible_connection=local {python}\n")
    (made / "site.yml").write_text(SITE)
    (made / "do").write_text("true\n")
    for name in ("ansible.cfg", "callback_plugins"):
        (made / name).symlink_to(REPO / name)
    return made


@pytest.fixture
def drive(tmp_path: Path, project: Path) -> Callable[..., Drive]:
    def make(**changes: Any) -> Drive:
        campaign = definition.load(write(tmp_path, pause="1s", **changes))
        return Drive(campaign, tmp_path / "results", project, say=lambda _: None)

    return make


def started(project: Path) -> list[str]:
    path = project / "started"
    return path.read_text().split() if path.exists() else []


def states(journal: Journal) -> list[str]:
    return [event["state"] for event in journal.events() if event["event"] == "run"]


def test_runs_go_to_their_end_and_the_command_gets_the_status(
    drive: Callable[..., Drive], project: Path, tmp_path: Path
) -> None:
    save = [sys.executable, "-c", "import sys; open('told', 'w').write(sys.stdin.read())"]
    made = drive(runs=[RUN, RUN], at_end=save)
    assert made.run() == "done"
    assert started(project) == ["c-01-quick-smoke", "c-02-quick-smoke"]
    assert states(made.journal) == ["running", "done"] * 2
    told = json.loads((project / "told").read_text())
    assert [run["state"] for run in told["runs"]] == ["done", "done"]
    artefacts = tmp_path / "results/campaigns/c/runner/c-01-quick-smoke/artifacts/001"
    assert "PLAY RECAP" in (artefacts / "stdout").read_text()
    assert (artefacts / "rc").read_text() == "0"
    assert made.run() == "done", "again: nothing is started"
    assert len(started(project)) == 2


def test_a_failed_playbook_is_started_again_so_many_times(
    drive: Callable[..., Drive], project: Path
) -> None:
    (project / "do").write_text("test $(wc -l < started) -ge 2\n")
    made = drive(runs=[{**RUN, "restarts": 2}])
    assert made.run() == "done"
    assert states(made.journal) == ["running", "waiting", "running", "done"]
    (project / "do").write_text("false\n")
    again = drive(name="d", runs=[{**RUN, "restarts": 1}])
    assert again.run() == "failed"
    assert states(again.journal) == ["running", "waiting", "running", "failed"]


def test_the_time_limit_ends_a_run_and_the_next_one_begins(
    drive: Callable[..., Drive], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "GRACE_S", GRACE_S)
    (project / "do").write_text("case {{ strata_run }} in *01*) sleep 900;; esac\n".replace(
        "{{ strata_run }}", "$(tail -n 1 started)"))  # fmt: skip
    made = drive(runs=[{**RUN, "time_limit": 1}, RUN])
    assert made.run() == "failed"
    assert states(made.journal) == ["running", "out of time", "running", "done"]


def test_testbeds_run_side_by_side(drive: Callable[..., Drive], project: Path) -> None:
    # Each waits for the other: alone, neither would end.
    (project / "do").write_text(
        "for i in $(seq 3000); do [ $(wc -l < started) -ge 2 ] && exit 0; sleep 0.1; done; false\n"
    )
    other = {**RUN, "testbed": "inventories/rehearsal"}
    made = drive(runs=[{**RUN, "restarts": 0}, {**other, "restarts": 0}])
    assert made.run() == "done"


def begin(file: Path, tmp_path: Path, project: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DRIVER, str(file), str(tmp_path / "results"), str(project)]
    return subprocess.Popen(
        command, cwd=REPO, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def until(seen: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_after_kill_9_the_same_command_goes_on(tmp_path: Path, project: Path) -> None:
    (project / "do").write_text("[ $(wc -l < started) = 2 ] && sleep 900; true\n")
    file = write(tmp_path, pause="1s", runs=[RUN, RUN, RUN])
    journal = Journal(tmp_path / "results/campaigns/c")
    first = begin(file, tmp_path, project)
    until(lambda: len(started(project)) == 2)
    campaign = definition.load(file)
    with pytest.raises(Refused, match="another process drives"), journal.held():
        pass
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    found = status.document(campaign, tmp_path / "results")
    assert not found["driven"]
    assert [run["state"] for run in found["runs"]] == ["done", "interrupted", "waiting"]
    with journal.path.open("a") as file_:
        file_.write('{"event": "run", "sta')
    second = begin(file, tmp_path, project)
    assert second.communicate(timeout=PATIENCE_S)[0].splitlines()[-1] == "done"
    runs = ["c-01-quick-smoke", *["c-02-quick-smoke"] * 2, "c-03-quick-smoke"]
    assert started(project) == runs


def test_told_to_stop_it_ends_in_order_and_can_go_on(tmp_path: Path, project: Path) -> None:
    (project / "do").write_text(
        "trap 'touch cleaned' EXIT; [ $(wc -l < started) = 1 ] && sleep 900; true\n"
    )
    file = write(tmp_path, pause="1s")
    process = begin(file, tmp_path, project)
    until(lambda: started(project))
    time.sleep(0.5)
    process.terminate()
    assert process.communicate(timeout=PATIENCE_S)[0].splitlines()[-1] == "stopped"
    journal = Journal(tmp_path / "results/campaigns/c")
    assert journal.state("c-01-quick-smoke") == "stopped"
    assert journal.process() is None
    again = begin(file, tmp_path, project)
    assert again.communicate(timeout=PATIENCE_S)[0].splitlines()[-1] == "done"


def test_bad_input_is_not_tried_again(tmp_path: Path) -> None:
    """With Strata's own site.yml: an inventory without a host is refused by the plan."""
    empty = tmp_path / "empty.yml"
    empty.write_text("all: {}\n")
    campaign = definition.load(write(tmp_path, runs=[{**RUN, "testbed": str(empty)}]))
    made = Drive(campaign, tmp_path / "results", say=lambda _: None)
    assert made.run() == "failed"
    assert states(made.journal) == ["running", "refused"]
    why = made.journal.events()[-2]["why"]
    assert "the inventory has no host in the group 'testbed'" in why
