"""The rehearsal cloud of all tests of this folder: up before the first, gone after the last.

Its figures of time are printed: nothing is measured by them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import openstack
import pytest
import yaml

from tests.conftest import playbook

FOLDER = Path("/var/lib/strata-openstack")
CLOUDS, CLOUD = FOLDER / "clouds.yaml", "strata-rehearsal"


def secret() -> str:
    """The administrator's password, which nothing may say."""
    return str(yaml.safe_load(CLOUDS.read_text())["clouds"][CLOUD]["auth"]["password"])


def rehearse(*given: str) -> str:
    """Make the cloud, or take it away; what the playbook says."""
    began = time.monotonic()
    done = playbook("playbooks/rehearse.yml", "-ecloud=openstack", *given)
    print(f"\nrehearse.yml {' '.join(given)}: {time.monotonic() - began:.0f} s")
    if CLOUDS.exists():
        assert secret() not in done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def cloud() -> Iterator[openstack.connection.Connection]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the cloud's services are installed")
    try:
        rehearse()
        clouds = openstack.config.OpenStackConfig(config_files=[str(CLOUDS)], load_envvars=False)
        yield openstack.connection.Connection(config=clouds.get_one(CLOUD))
    finally:
        # It fails when anything of the cloud is left.
        rehearse("-estate=absent")
