"""Run one module through real Ansible, with its leases in a folder of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPO, environment

Result = dict[str, Any]
RunModule = Callable[..., Result]
PLUGINS = Path(__file__).parent / "plugins"
# The lease of this machine may be held by a run right now. For root it is always in /run/strata,
# so root's Ansible gets a view of the file system with a folder of the test's there. So it is with
# the list of claimed folders.
APART = (
    'mkdir -p /run/strata "$0/../folders" /var/lib/strata.folders && '
    'mount --bind "$0/../folders" /var/lib/strata.folders && mount --bind "$0" /run/strata'
)
# A trial removes what it takes for the leftovers of others. One of a test is not to find any.
ALONE = (
    "mount -t tmpfs tmpfs /sys/fs/cgroup && "
    "{ [ ! -e /run/docker.sock ] || mount --bind /dev/null /run/docker.sock; }"
)


@pytest.fixture
def run_module(tmp_path: Path) -> RunModule:
    """Call a module as a playbook does and return its result, with `failed` set.

    A warning of Ansible's, or no result at all, is an error of the test. `alone` hides control
    groups and Docker's engine from it.
    """
    leases = tmp_path / "runtime"
    leases.mkdir()

    def run(
        name: str, args: Result, check: bool = False, diff: bool = False, alone: bool = False
    ) -> Result:
        task = {"name": "The module under test", name: args}
        play = [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]
        path = tmp_path / "play.yml"
        path.write_text(json.dumps(play))  # JSON is YAML
        flags = [flag for flag, asked in (("--check", check), ("--diff", diff)) if asked]
        return _result(_start([*_playbook(), *flags, str(path)], leases, alone))

    return run


def _playbook() -> list[str]:
    interpreter = f"-eansible_python_interpreter={sys.executable}"
    return ["ansible-playbook", "-i", "localhost,", "-c", "local", interpreter]


def _start(command: list[str], leases: Path, alone: bool) -> subprocess.CompletedProcess[str]:
    variables = {
        **environment(),
        "ANSIBLE_STDOUT_CALLBACK": "one_result",
        "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS),
        "XDG_RUNTIME_DIR": str(leases),
        "HOME": str(leases.with_name("home")),
    }
    if os.geteuid() == 0:
        script = " && ".join([APART, *([ALONE] if alone else []), 'exec "$@"'])
        apart = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script]
        command = [*apart, str(leases), *command]
    return subprocess.run(
        command, cwd=REPO, env=variables, capture_output=True, text=True, check=False, timeout=60
    )


def _result(done: subprocess.CompletedProcess[str]) -> Result:
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    said = done.stdout[-2000:] + done.stderr[-2000:]
    assert len(lines) == 1, said
    assert "WARNING" not in said, said
    found: Result = json.loads(lines[0])
    assert not found.get("warnings") and not found.get("deprecations"), found
    return found
