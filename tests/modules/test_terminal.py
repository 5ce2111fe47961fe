"""What a person sees of a playbook: whatever a text holds, the terminal gets no control of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from analysis.shown import shown
from tests.conftest import REPO, environment

EVIL = "\x1b]0;owned\x07\x1b[7m\x9b31m\u202eright"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def test_texts_are_escaped_and_colours_are_ansibles_own(tmp_path: Path) -> None:
    (tmp_path / "old").write_text(f"{EVIL}\n")
    copy = {"content": f"new {EVIL}\n", "dest": str(tmp_path / "old"), "mode": "0600"}
    tasks = [
        {"name": "Say it", "ansible.builtin.debug": {"msg": EVIL}},
        {"name": f"A name {EVIL}", "ansible.builtin.copy": copy},
        {"name": "Run", "ansible.builtin.command": {"argv": ["printf", EVIL]}},
        {"name": "Fail", "ansible.builtin.fail": {"msg": EVIL}},
    ]
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    command = ["ansible-playbook", "-v", "--diff", "-i", "localhost,", "-c", "local", str(play)]
    more = {"ANSIBLE_FORCE_COLOR": "1", "ANSIBLE_NOCOLOR": ""}
    done = subprocess.run(
        [*command, f"-eansible_python_interpreter={sys.executable}"],
        cwd=REPO,
        env={**environment(), **more},
        check=False,
        capture_output=True,
        text=True,
    )
    told = done.stdout + done.stderr
    assert "\x1b[7m" not in told
    assert "\x1b[0;31mfatal: " in told and "\x1b[0m" in told, "Ansible's own colours stay"
    left = COLOUR.sub("", told)
    assert [line for line in left.split("\n") if shown(line) != line] == []
    assert told.count("owned") >= 4
