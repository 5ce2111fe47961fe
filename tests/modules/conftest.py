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
from strata.host import lease

from tests.conftest import PATIENCE_S, REPO, environment

Result = dict[str, Any]
RunModule = Callable[..., Result]
PLUGINS = Path(__file__).parent / "plugins"
# The lease of this machine may be held by a run right now. Its place is always the same, so Ansible
# gets a view of the file system with a folder of the test's there. So it is with the list of
# claimed folders, which is root's at a fixed place, and an ordinary account's in its home.
FOLDERS = (
    'mkdir -p "$0/../folders" /var/lib/strata.folders && '
    'mount --bind "$0/../folders" /var/lib/strata.folders'
)
UNSHARE = ["unshare", "--mount", "--propagation", "private"]
WITHOUT_ROOT = ["--user", "--map-current-user", "--keep-caps"]
# A trial removes what it takes for the leftovers of others. One of a test is not to find any.
ALONE = (
    "mount -t tmpfs tmpfs /sys/fs/cgroup && "
    "{ [ ! -d /opt/strata-apptainer ] || mount -t tmpfs tmpfs /opt; } && "
    "{ [ ! -e /run/docker.sock ] || mount --bind /dev/null /run/docker.sock; }"
)


@pytest.fixture
def run_module(tmp_path: Path) -> RunModule:
    """Call a module as a playbook does and return its result, with `failed` set.

    A warning of Ansible's, or no result at all, is an error of the test. `alone` hides control
    groups and Docker's engine from it. `see` is called with each line that Ansible prints.
    """
    leases = tmp_path / "runtime"
    leases.mkdir()

    def run(
        name: str,
        args: Result,
        check: bool = False,
        diff: bool = False,
        alone: bool = False,
        see: Callable[[str], None] = lambda _: None,
    ) -> Result:
        task = {"name": "The module under test", name: args}
        play = [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]
        path = tmp_path / "play.yml"
        path.write_text(json.dumps(play))  # JSON is YAML
        flags = [flag for flag, asked in (("--check", check), ("--diff", diff)) if asked]
        return _result(_start([*_playbook(), *flags, str(path)], leases, alone, see))

    return run


def _playbook() -> list[str]:
    interpreter = f"-eansible_python_interpreter={sys.executable}"
    return ["ansible-playbook", "-i", "localhost,", "-c", "local", interpreter]


def _start(command: list[str], leases: Path, alone: bool, see: Callable[[str], None]) -> str:
    variables = {
        **environment(),
        "ANSIBLE_STDOUT_CALLBACK": "one_result",
        "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS),
        "HOME": str(leases.with_name("home")),
    }
    place = lease.folder()
    apart = f'mkdir -p {place} && mount --bind "$0" {place}'
    root = [FOLDERS, *([ALONE] if alone else [])] if os.geteuid() == 0 else []
    script = " && ".join([apart, *root, 'exec "$@"'])
    unshare = [*UNSHARE, *([] if os.geteuid() == 0 else WITHOUT_ROOT)]
    command = [*unshare, "/bin/sh", "-c", script, str(leases), *command]
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    said = []
    with subprocess.Popen(
        ["timeout", str(PATIENCE_S), *command], cwd=REPO, env=variables, **out
    ) as process:
        assert process.stdout
        for line in process.stdout:
            said.append(line)
            see(line)
    return "".join(said)


def _result(said: str) -> Result:
    lines = [line for line in said.splitlines() if line.startswith("{")]
    said = said[-4000:]
    assert len(lines) == 1, said
    assert "WARNING" not in said, said
    found: Result = json.loads(lines[0])
    assert not found.get("warnings") and not found.get("deprecations"), found
    return {**found, "said": said}
