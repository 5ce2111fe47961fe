"""A testbed that is taken down and built again from the lock of a run on it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller import ledger
from schema import lock
from tests.conftest import EXPERIMENTS, REPO, environment

from . import made
from .lab import folder
from .made import HOST, Made, docker

SUBNET = "10.201.245"
pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]


def ansible(name: str, inventory: Path, results: Path, *more: str) -> tuple[int, str]:
    """A playbook with the experiment of these tests; its exit status, and what it says."""
    given = [f"-estrata_experiment={EXPERIMENTS}/spin.yml", "-estrata_slice=native"]
    given += [f"-estrata_results={results}", *more]
    done = subprocess.run(
        ["ansible-playbook", name, "-i", str(inventory), *given],
        **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def measured(inventory: Path, results: Path) -> Path:
    """A run on the testbed."""
    status, said = ansible("site.yml", inventory, results)
    assert status == 0, said[-4000:]
    run = folder(results)
    assert run
    return run


def rebuild(inventory: Path, run: Path, *more: str) -> tuple[int, str]:
    given = (f"-estrata_run={run.name}", *more)
    return ansible("playbooks/rebuild.yml", inventory, run.parent, *given)


def relock(run: Path, part: str, **values: str) -> None:
    """Write another lock in the place of a run's, with other values of its host."""

    def change(document: dict[str, Any]) -> None:
        document["hosts"][HOST][part].update(values)

    rewritten(run / lock.FILE, change)


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    document["digest"] = lock.validate_lock(document).identity()
    path.write_text(json.dumps(document))


@pytest.fixture(scope="module")
def testbed(deployed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with made.testbed(tmp_path_factory.mktemp("testbed"), "again", SUBNET) as found:
        yield found


def test_a_host_that_is_made_again_is_the_same_or_is_not_touched(
    testbed: Made, tmp_path: Path
) -> None:
    run = measured(testbed.inventory, tmp_path / "results")
    locked, first = lock.read_lock(run / lock.FILE), testbed.instance()
    # A role has installed it: what the node starts from has it not.
    assert "package.rsync" in locked.hosts[HOST].software
    assert locked.hosts[HOST].placement["rate"] == 0

    with made.offline(SUBNET):
        status, said = rebuild(testbed.inventory, run)
    assert status == 0 and "no difference" in said, said[-4000:]
    (again,) = lock.read_rebuilds(run)
    assert again.digest == locked.digest and again.differences == []
    second = testbed.instance()
    assert again.instances == {HOST: second} and second != first

    relock(run, "software", **{"package.rsync": "1.0-1"})
    status, said = rebuild(testbed.inventory, run)
    assert status != 0 and "rsync=1.0-1 locked, and no source" in said, said[-4000:]
    relock(run, "hardware", **{"cpu.model": "Another CPU"})
    status, said = rebuild(testbed.inventory, run, "--check")
    assert status != 0 and "cpu.model: Another CPU locked" in said, said[-4000:]
    assert testbed.instance() == second, "nothing was taken down"


def test_what_drifted_on_a_host_that_exists_is_named_and_its_packages_are_brought_back(
    testbed: Made, tmp_path: Path
) -> None:
    measured(testbed.inventory, tmp_path / "made")
    # The same node as a host that nobody is to make.
    book = ledger.Ledger(REPO / ".cache", ledger.testbed([str(testbed.inventory)]))
    inventory = tmp_path / "existing"
    made.write(inventory, {"hosts": {HOST: book.hosts()[HOST]["connection"]}})
    run = measured(inventory, tmp_path / "results")
    docker("exec", testbed.instance(), "apt-get", "-qq", "remove", "--yes", "rsync")
    pid = docker("inspect", "-f{{.State.Pid}}", testbed.instance())
    write = "echo 999 >/proc/sys/net/core/somaxconn"
    subprocess.run(["nsenter", f"--target={pid}", "--net", "sh", "-c", write], check=True)

    status, said = rebuild(inventory, run)
    assert f"confound: {HOST}: kernel setting net.core.somaxconn" in said, said[-4000:]
    (again,) = lock.read_rebuilds(run)
    found = [(row.key, row.found) for row in again.differences]
    assert found == [("sysctl.net.core.somaxconn", "999")], "rsync has its version again"
    assert status != 0
