"""What bare metal a cloud has for a testbed, asked before anything is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Interface
from typing import Any

from ...errors import Refused
from . import faults, offer
from .metal import AGENT, CLEANING, DEPLOYS, Machine

NUMBERS = {"cpus", "memory_mb", "local_gb"}
CLEAN = ("off", *CLEANING)


def check_said(machine: Machine) -> None:
    """Raises Refused unless the inventory says how a host is enrolled and where it answers."""
    try:
        IPv4Interface(machine.address)
        answers = "/" in machine.address
    except ValueError:
        answers = False
    if not answers:
        raise Refused(
            "bare metal is given its address, as nobody else tells where it answers",
            example="openstack_address: 10.78.0.11/24",
            given=f"{machine.host}: openstack_address: {machine.address or 'nothing'}",
            then="set it at the host, and openstack_gateway where it needs one",
        )
    if machine.node and not (machine.node.get("driver") and machine.node.get("driver_info")):
        raise Refused(
            "a node is enrolled with the driver and the address of its BMC",
            example="openstack_node: {driver: redfish, driver_info: {redfish_address: …}}",
            given=f"{machine.host}: openstack_node with {', '.join(machine.node)}",
            then="set both, or leave openstack_node out and name an openstack_resource_class",
        )
    if wrong := _no_numbers(machine.node.get("properties", {})):
        raise Refused(
            "properties of a node are whole numbers, of memory in MiB and of disks in GB",
            example="openstack_node: {properties: {cpus: 64, memory_mb: 524288}}",
            given=f"{machine.host}: {wrong}",
            then="correct it, or leave it out: inspection finds it",
        )
    if machine.clean not in CLEAN:
        raise Refused(
            "a node is cleaned in one of the ways that Ironic knows",
            example="openstack_clean: metadata",
            given=f"{machine.host}: openstack_clean: {machine.clean}",
            then=f"known: {', '.join(CLEAN)}",
        )
    if machine.deploy not in DEPLOYS:
        raise Refused(
            "a node is deployed in one of the ways that Strata knows of Ironic's",
            example="openstack_deploy: direct",
            given=f"{machine.host}: openstack_deploy: {machine.deploy}",
            then=f"known: {', '.join(DEPLOYS)}",
        )


def _no_numbers(properties: Any) -> str:
    """Those of a node's properties that should be numbers and are not."""
    if not isinstance(properties, Mapping):
        return str(properties)
    given = {name: properties[name] for name in NUMBERS & set(properties)}
    return ", ".join(
        f"{name}: {value}" for name, value in given.items() if not str(value).isdecimal()
    )


def offers(cloud: Any, machines: Iterable[Machine]) -> dict[str, dict[str, Any]]:
    """By host what it would be. Raises Refused where it cannot be had."""
    machines = list(machines)
    for machine in machines:
        check_said(machine)
    if not cloud.has_service("baremetal"):
        raise Refused(
            "a cloud that gives bare metal has Ironic",
            given=f"{machines[0].host}: the catalogue of the cloud has no service 'baremetal'",
            then="name another cloud, or a flavor of bare metal: openstack_flavor",
        )
    drivers = [driver.name for driver in cloud.baremetal.drivers()]
    nodes = list(cloud.baremetal.nodes(details=True))
    given = {allocation.name for allocation in cloud.baremetal.allocations() if allocation.node_id}
    for machine in machines:
        if machine.node:
            offer.check_named("driver", machine.node["driver"], drivers, "driver")
            _check_deploys(cloud, machine)
            _check_used([node for node in nodes if node.name == machine.name], machine)
    asked = [machine for machine in machines if not machine.node and machine.name not in given]
    for kind, count in Counter(machine.resource_class for machine in asked).items():
        _check_free([node for node in nodes if node.resource_class == kind], kind, count)
    return {machine.host: _offer(machine) for machine in machines}


def _check_deploys(cloud: Any, machine: Machine) -> None:
    """Raises Refused where the cloud has switched off how the machine is to be deployed."""
    driver = cloud.baremetal.get_driver(machine.node["driver"])
    enabled = driver.enabled_deploy_interfaces or []
    if not {machine.deploy, machine.enrolled} <= set(enabled):
        raise Refused(
            "the cloud has enabled the way in which a node is deployed, for its driver; to be "
            f"erased it needs {AGENT}",
            example=f"openstack_deploy: {enabled[0]}" if enabled else "",
            given=f"{machine.host}: openstack_deploy: {machine.deploy}, openstack_clean: "
            f"{machine.clean}; {driver.name} has {', '.join(enabled) or 'none'}",
            then="ask for one that it has, or have it enabled: enabled_deploy_interfaces of "
            "ironic.conf",
        )


def _check_used(there: list[Any], machine: Machine) -> None:
    for node in there:
        if node.is_maintenance:
            why = node.maintenance_reason or "nobody said why"
            raise faults.refused(machine.host, f"{node.name} in maintenance: {why}")


def _check_free(nodes: list[Any], kind: str, count: int) -> None:
    """Raises Refused unless so many nodes of a class are free."""
    states = Counter(_state(node) for node in nodes)
    if states["free"] < count:
        seen = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        raise Refused(
            "the cloud has as many free bare-metal nodes of a class as the testbed asks",
            example="openstack_resource_class: baremetal",
            given=f"{count} of {kind!r}; of its nodes are {seen or 'none there'}",
            then="ask for fewer or for another class, or have nodes made available: "
            "openstack baremetal node list --fields name resource_class provision_state",
        )


def _state(node: Any) -> str:
    if node.is_maintenance:
        return "in maintenance"
    if node.instance_id:
        return "in use"
    return "free" if node.provision_state == "available" else str(node.provision_state)


def _offer(machine: Machine) -> dict[str, Any]:
    """As much of it as the inventory says."""
    said: Mapping[str, Any] = machine.node.get("properties", {})
    known: dict[str, Any] = {"what": {"node": machine.name}}
    if "cpus" in said:
        known["cpu_ids"] = list(range(int(said["cpus"])))
    if "memory_mb" in said:
        known["memory_total"] = int(said["memory_mb"]) * offer.MIB
    return known
