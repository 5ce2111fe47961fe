"""The rehearsal cloud of all tests of this folder: up before the first, gone after the last.

Its figures of time are printed: nothing is measured by them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import openstack
import pytest

from tests.conftest import playbook

from .testbed import CLOUD, CLOUDS, Testbed, secrets, write


def rehearse(*given: str) -> str:
    """Make the cloud, or take it away; what the playbook says."""
    began = time.monotonic()
    done = playbook("playbooks/rehearse.yml", "-ecloud=openstack", *given)
    print(f"\nrehearse.yml {' '.join(given)}: {time.monotonic() - began:.0f} s")
    if CLOUDS.exists():
        assert not any(secret in done.stdout + done.stderr for secret in secrets())
    return done.stdout


@contextlib.contextmanager
def made(*given: str) -> Iterator[openstack.connection.Connection]:
    """A cloud of these settings, gone at the end."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the cloud's services are installed")
    try:
        rehearse(*given)
        clouds = openstack.config.OpenStackConfig(config_files=[str(CLOUDS)], load_envvars=False)
        yield openstack.connection.Connection(config=clouds.get_one(CLOUD))
    finally:
        # It fails when anything of the cloud is left.
        rehearse("-estate=absent")


@pytest.fixture(scope="session")
def cloud() -> Iterator[openstack.connection.Connection]:
    with made() as cloud:
        yield cloud


@pytest.fixture
def testbed(cloud: openstack.connection.Connection, tmp_path: Path) -> Iterator[Testbed]:
    inventory = tmp_path / "testbed"
    inventory.mkdir()
    write(inventory, {"vm1": {}})
    made = Testbed(inventory, [], {}, cloud)
    try:
        yield made
    finally:
        # It fails when anything of the testbed is left, whatever hosts the inventory has by now.
        write(inventory, {"vm1": {}})
        made.on("playbooks/teardown", "--limit=testbed")
