"""The rehearsal cloud: the real services, made, made again, and taken away. No mock anywhere.

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

from tests.conftest import changed, playbook

# The library warns of how it calls itself.
UNHEARD = "ignore::openstack.warnings.RemovedInSDK60Warning"
pytestmark = [pytest.mark.root, pytest.mark.filterwarnings(UNHEARD)]

CLOUDS = Path("/var/lib/strata-openstack/clouds.yaml")
CLOUD = "strata-rehearsal"


def rehearse(*given: str) -> str:
    began = time.monotonic()
    done = playbook("playbooks/rehearse.yml", "-ecloud=openstack", *given)
    print(f"\nrehearse.yml {' '.join(given)}: {time.monotonic() - began:.0f} s")
    if CLOUDS.exists():
        clouds = yaml.safe_load(CLOUDS.read_text())["clouds"]
        assert clouds[CLOUD]["auth"]["password"] not in done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
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


def test_its_services_answer(cloud: openstack.connection.Connection) -> None:
    assert CLOUDS.stat().st_mode & 0o777 == 0o600
    assert {agent.agent_type for agent in cloud.network.agents() if agent.is_alive} >= {
        "Linux bridge agent",
        "DHCP agent",
    }
    assert [host.state for host in cloud.compute.hypervisors()] == ["up"]
    assert [network.name for network in cloud.network.networks()] == ["guests"]
    assert [driver.name for driver in cloud.baremetal.drivers()] == ["redfish"]


def test_a_cloud_that_is_there_is_not_changed(cloud: openstack.connection.Connection) -> None:
    assert changed(rehearse()) == 0
    assert changed(rehearse("--check")) == 0
