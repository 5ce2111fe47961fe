"""The rehearsal lab that integration tests share: made once, taken away at the end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPO, environment, playbook

from . import lab as labs


def rehearse(inventory: Path, *more: str) -> str:
    given = [f"-erehearsal_lab={labs.NAME}", f"-erehearsal_subnet={labs.SUBNET}"]
    given += ["-erehearsal_nodes=2", f"-erehearsal_inventory={inventory}", *more]
    return playbook("playbooks/rehearse.yml", *given).stdout


@pytest.fixture(scope="session")
def lab(deployed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[labs.Lab]:
    """Two nodes with the image and Docker on them."""
    inventory = tmp_path_factory.mktemp("lab") / "inventory"
    try:
        rehearse(inventory)
        made = labs.Lab(inventory, ["node1", "node2"], {})
        made.keep_bytecode()
        made.site("spin", tmp_path_factory.mktemp("results") / "first", "-estrata_slice=each")
        made.note_rules()
        yield made
        # It fails when anything of Strata's is left on a node.
        teardown = ["playbooks/teardown.yml", "-i", str(inventory), "--limit", "testbed"]
        run = subprocess.run(
            ["ansible-playbook", *teardown],
            **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
            check=False,
        )
        assert run.returncode == 0, run.stdout[-3000:]
    finally:
        # It fails when anything of the lab is left.
        rehearse(inventory, "-estate=absent")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def nothing_left(lab: labs.Lab) -> Iterator[None]:
    """Whatever happens in a test, nothing of a trial is left on a node."""
    yield
    assert lab.left() == {}
