"""A server behind a router: reached by an address outside, deleted by somebody else, made again.

No mock: what a cloud says is said by its services.
"""

from __future__ import annotations

from collections.abc import Iterator

import openstack
import pytest

from tests.openstack.conftest import cloud, testbed
from tests.openstack.testbed import SPIN, Testbed, write

__all__ = ["cloud", "testbed"]
UNHEARD = "ignore::openstack.warnings.RemovedInSDK60Warning"
pytestmark = [pytest.mark.root, pytest.mark.image, pytest.mark.filterwarnings(UNHEARD)]


@pytest.fixture
def inner(cloud: openstack.connection.Connection) -> Iterator[str]:
    """A network of a project's own, as clouds have them: it filters, and is behind a router."""
    neutron = cloud.network
    network = neutron.create_network(name="inner")
    subnet = neutron.create_subnet(network_id=network.id, ip_version=4, cidr="10.79.0.0/24")
    outside = {"network_id": neutron.find_network("guests").id}
    router = neutron.create_router(name="inner", external_gateway_info=outside)
    neutron.add_interface_to_router(router, subnet_id=subnet.id)
    try:
        yield network.name
    finally:
        neutron.remove_interface_from_router(router, subnet_id=subnet.id)
        neutron.delete_router(router)
        neutron.delete_network(network)


def test_a_server_behind_a_router_is_reached_deleted_and_made_again(
    testbed: Testbed, inner: str
) -> None:
    cloud, mine = testbed.cloud, f"strata-{testbed.ledger.testbed}"
    reached = {"openstack_floating": "guests", "openstack_host_keys": "given"}
    write(testbed.inventory, {"vm1": {}}, openstack_network=inner, **reached)
    said = testbed.on("site", "--tags=provision", *SPIN)  # which logs in
    assert "PRIVATE KEY" not in said
    (server,) = cloud.compute.servers()
    assert [group["name"] for group in server.security_groups] == [mine]
    (address,) = cloud.network.ips()
    assert address.description == f"{mine}-vm1"
    connection = testbed.ledger.hosts()["vm1"]["connection"]
    assert connection["ansible_host"] == address.floating_ip_address
    rules = cloud.network.find_security_group(mine).security_group_rules
    ways = {(rule["direction"], rule["protocol"], rule["port_range_min"]) for rule in rules}
    assert ways == {("ingress", "tcp", 22), ("ingress", None, None), ("egress", None, None)}

    said = testbed.on("site", "--tags=provision", *SPIN)
    (recap,) = [line for line in said.splitlines() if line.startswith("vm1 ")]
    assert "changed=0" in recap, said[-6000:]

    testbed.deleted(f"{mine}-vm1")
    said = testbed.on("site", "--tags=provision", *SPIN)
    now = testbed.ledger.hosts()["vm1"]["instance"]
    assert f"vm1 is another instance: {now}, was {server.id}" in said
    assert [each.id for each in cloud.compute.servers()] == [now]
    assert [each.floating_ip_address for each in cloud.network.ips()] == [
        address.floating_ip_address
    ], "its address is kept"

    testbed.on("playbooks/teardown", "--limit=testbed")
    assert not list(cloud.network.ips())
    groups = [group.name for group in cloud.network.security_groups()]
    assert not [name for name in groups if name.startswith("strata-")]
