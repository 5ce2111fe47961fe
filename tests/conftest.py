"""What all tests share: the checkout, ansible-playbook, and the rule that CI skips nothing."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strata.host import owned

REPO = Path(__file__).parent.parent
LOCAL = ("-i", "inventories/local")
STATE = Path("/var/lib/strata")
EXPERIMENTS = REPO / "tests/data/experiments"


@pytest.fixture(autouse=True)
def register(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The list of folders that a test claims in this process is the test's own."""
    folder = tmp_path_factory.getbasetemp() / f"folders-{secrets.token_hex(8)}"
    monkeypatch.setattr(owned, "register", lambda: folder)
    return folder


def environment() -> dict[str, str]:
    """Of Ansible in tests: this checkout's configuration, plain output."""
    return {
        **os.environ,
        "ANSIBLE_CONFIG": str(REPO / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def playbook(
    name: str, *arguments: str, check: bool = True, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run ansible-playbook in the checkout on this machine."""
    done = subprocess.run(
        ["ansible-playbook", name, *LOCAL, *arguments],
        cwd=REPO,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        **more,
    )
    if check:
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done


def changed(output: str) -> int:
    """The number of changed tasks in the recap of localhost."""
    recap = next(line for line in output.splitlines() if line.startswith("localhost "))
    return int(recap.split("changed=")[1].split()[0])


@pytest.fixture(scope="session")
def deployed() -> Iterator[None]:
    """The workload image on this machine, natively and in Docker."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a root filesystem and Docker cannot be had without")
    if shutil.which("apt-get") is None:
        pytest.skip("needs a Debian or Ubuntu: Docker is installed from the distribution")
    playbook(
        "site.yml",
        "--tags=deploy",
        f"-estrata_experiment={EXPERIMENTS}/spin.yml",
    )
    yield


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI, which has root and a distribution, a skip is a failure: what can run must run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and os.environ.get("CI") == "true" and exitstatus == pytest.ExitCode.OK:
        for report in skipped:
            print(f"\nskipped in CI: {report.nodeid}: {report.longrepr[2]}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
