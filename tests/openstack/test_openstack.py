"""The rehearsal cloud: the real services, made, made again, and taken away. No mock anywhere."""

from __future__ import annotations

import openstack
import pytest

from tests.conftest import changed

from .conftest import rehearse
from .testbed import CLOUDS

# The library warns of how it calls itself.
UNHEARD = "ignore::openstack.warnings.RemovedInSDK60Warning"
pytestmark = [pytest.mark.root, pytest.mark.filterwarnings(UNHEARD)]


def test_its_services_answer(cloud: openstack.connection.Connection) -> None:
    assert CLOUDS.stat().st_mode & 0o777 == 0o600
    assert {agent.agent_type for agent in cloud.network.agents() if agent.is_alive} >= {
        "Linux bridge agent",
        "DHCP agent",
        "L3 agent",
    }
    assert [host.state for host in cloud.compute.hypervisors()] == ["up"]
    assert [network.name for network in cloud.network.networks()] == ["guests"]
    assert {driver.name for driver in cloud.baremetal.drivers()} == {"ipmi", "redfish"}


def test_a_cloud_that_is_there_is_not_changed(cloud: openstack.connection.Connection) -> None:
    assert changed(rehearse()) == 0
    assert changed(rehearse("--check")) == 0
