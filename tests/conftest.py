"""What all tests share: the checkout, ansible-playbook, who runs beside whom, what CI asks."""

from __future__ import annotations

import contextlib
import fcntl
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

from tools.apptainer_offline import archive

REPO = Path(__file__).parent.parent
LOCAL = ("-i", "inventories/local")
STATE = Path("/var/lib/strata")
EXPERIMENTS = REPO / "tests/data/experiments"
# After so long, what a test waits for counts as missing. Nothing is measured by it.
PATIENCE_S = 300.0


@pytest.fixture(autouse=True)
def register(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The list of folders that a test claims in this process is the test's own."""
    folder = tmp_path_factory.getbasetemp() / f"folders-{secrets.token_hex(8)}"
    monkeypatch.setattr(owned, "register", lambda: folder)
    return folder


def lone(host: str) -> list[dict[str, Any]]:
    """The members of a trial that has one, as a plan lists them."""
    return [{"role": "worker", "index": 0, "host": host, "ports": []}]


def environment() -> dict[str, str]:
    """Of Ansible in tests: this checkout's configuration, plain output."""
    return {
        **os.environ,
        "ANSIBLE_CONFIG": str(REPO / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(REPO / "tests/bytecode"),
        "STRATA_BYTECODE": str(REPO / ".venv/bytecode"),
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


def finds_nothing(*command: str) -> None:
    """Run a check of the whole checkout; what it finds is the test's failure."""
    done = subprocess.run(
        command,
        cwd=REPO,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(done.stdout, pytrace=False)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all workers of this run of tests have in common."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@contextlib.contextmanager
def in_turn(shared: Path, name: str) -> Iterator[bool]:
    """One worker at a time does what has this name; whether one has done it before."""
    with (shared / f"{name}.done").open("a+") as done:
        fcntl.flock(done, fcntl.LOCK_EX)
        yield done.tell() > 0
        done.write("once\n")


@pytest.fixture(scope="session")
def deployed(shared: Path) -> None:
    """The workload image on this machine, natively and in Docker."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a root filesystem and Docker cannot be had without")
    if shutil.which("apt-get") is None:
        pytest.skip("needs a Debian or Ubuntu: Docker is installed from the distribution")
    with in_turn(shared, "deployed") as done:
        if not done:
            playbook("site.yml", "--tags=deploy", f"-estrata_experiment={EXPERIMENTS}/spin.yml")


@pytest.fixture(scope="session")
def apptainer() -> None:
    """Apptainer, for hosts whose distribution has none."""
    if shutil.which("apptainer") is None and not archive(REPO / ".cache").exists():
        pytest.skip("needs Apptainer, built once: .venv/bin/python tools/apptainer_offline.py make")


# What waits most comes first, and the others fill its pauses.
TIERS = (
    *("long", "kubernetes", "openstack", "libvirt", "slurm", "apptainer", "cluster"),
    *("integration", "playbooks", "lint", "types", "modules", "unit"),
)


def tier(nodeid: str) -> str:
    """The folder of a test below `tests`."""
    return nodeid.split("/")[1]


def group(item: pytest.Item) -> str | None:
    """The tests that it must run one after another with, on one worker.

    They share the state of this machine, and the lab that is made from it, or else what their
    module has made once.
    """
    fixtures = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    if "deployed" in fixtures:
        return "machine"
    shared = [found[-1] for found in fixtures.values() if found[-1].scope in ("module", "class")]
    return Path(shared[0].baseid.split("::")[0]).stem if shared else None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: TIERS.index(tier(item.nodeid)))
    for item in items:
        if name := group(item):
            item.add_marker(pytest.mark.xdist_group(name))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How long each tier took: the work in it, and from its first test to its last."""
    reports = [
        report
        for found in terminalreporter.stats.values()
        for report in found
        if isinstance(report, pytest.TestReport)
    ]
    if not reports:
        return
    terminalreporter.section("time of each tier")
    for name in sorted({tier(report.nodeid) for report in reports}):
        of = [report for report in reports if tier(report.nodeid) == name]
        work = sum(report.duration for report in of)
        wall = max(report.stop for report in of) - min(report.start for report in of)
        count = len({report.nodeid for report in of})
        terminalreporter.line(f"{name:12}{count:5} tests {work:6.0f} s of work in {wall:5.0f} s")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI, which has root and a distribution, a skip is a failure: what can run must run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and os.environ.get("CI") == "true" and exitstatus == pytest.ExitCode.OK:
        for report in skipped:
            print(f"\nskipped in CI: {report.nodeid}: {report.longrepr[2]}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
