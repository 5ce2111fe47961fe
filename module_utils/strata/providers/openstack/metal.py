"""Bare metal on its way through Ironic, from a BMC that nobody knows to a host that answers.

    enroll -> manageable -> inspected, cleaned -> available -> given to the testbed -> active

Ironic goes each step by itself; at each look what comes next is asked for, of all machines side by
side. So whoever goes on after a process that was killed finds them where they are. A machine is the
testbed's by an allocation, which bears its name and ends when the machine is given back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from typing import Any

from openstack import exceptions

from ...errors import Refused
from ..guest import drive
from . import faults
from .found import TAG

LOOK_S = 1.0
# What inspection finds, and may be said in the inventory to be checked against it.
FOUND = ("cpus", "memory_mb", "local_gb", "cpu_arch")
# How a node is erased before it is used: steps of Ironic's, which its deploy ramdisk runs.
CLEANING = {"metadata": "erase_devices_metadata", "full": "erase_devices"}
# What follows a state in which a node stays, on the way up and on the way down.
UP = {
    "enroll": "manage",
    "inspect failed": "inspect",
    "clean failed": "manage",
    "available": "active",
    "deploy failed": "active",
    "error": "deleted",
}
DOWN = {
    **dict.fromkeys(("active", "deploy failed", "wait call-back", "error"), "deleted"),
    "clean wait": "abort",
}
# The state of a node that could not do what it was asked.
FAILED = {
    "manage": "enroll",
    "inspect": "inspect failed",
    "clean": "clean failed",
    "active": "deploy failed",
    "deleted": "error",
}
OFF = "power off"
# The interface of a driver that finds nothing out, as that of IPMI.
BLIND = "no-inspect"
MEDIA = "redfish-virtual-media"
# On a disk the deploy ramdisk writes what a host is told; in memory it has to be told by a medium.
AGENT = "direct"
DEPLOYS = ("ramdisk", AGENT)


@dataclass(frozen=True)
class Machine:
    """What a host is to be. `node` is how it is enrolled; empty for one of the class that is there.

    `name` is that of the allocation, and of the node where it is enrolled; `address` has a prefix.
    """

    host: str
    name: str
    resource_class: str
    node: Mapping[str, Any]
    clean: str = "off"
    deploy: str = "ramdisk"
    address: str = ""
    gateway: str = ""

    @property
    def ip(self) -> str:
        return str(IPv4Interface(self.address).ip)

    @property
    def enrolled(self) -> str:
        """The way of deploying that Ironic is told with the node. To one that runs from its memory
        it gives no agent, so that it could not be cleaned; how it is deployed is told with that.
        """
        return self.deploy if self.clean == "off" else AGENT

    @property
    def ports(self) -> list[str]:
        """Addresses of its cards, where the inventory says them: nobody else does over IPMI."""
        return list({str(mac).lower(): None for mac in self.node.get("ports", [])})


@dataclass(frozen=True)
class Start:
    """From what a machine starts: images by kind and id, words of the kernel's, and its keys."""

    images: Mapping[str, str]
    arguments: str
    key: str  # lets the controller in
    host_key: str  # its own, the private half
    host_public: str

    def info(self, deploy: str) -> dict[str, str]:
        """As Ironic is told. Of kernel and ramdisk its conductor makes a medium, which the BMC
        inserts; a disk is written by its deploy ramdisk.
        """
        if deploy == AGENT:
            return {"deploy_interface": deploy, "image_source": self.images["disk"]}
        return {
            "deploy_interface": deploy,
            **{kind: self.images[kind] for kind in ("kernel", "ramdisk")},
            "ramdisk_kernel_arguments": self.arguments,
        }

    def drive(self, machine: Machine, mac: str) -> dict[str, Any]:
        """What its config drive tells it."""
        network = drive.network(machine.address, machine.gateway, mac)
        return drive.told(machine.host, self.key, (self.host_key, self.host_public), network)


@dataclass
class Way:
    """One machine on its way; what this process has asked for, last and at all."""

    cloud: Any
    machine: Machine
    testbed: str
    asked: list[str] = field(default_factory=list)
    node: Any = None
    allocation: Any = None

    @property
    def changed(self) -> bool:
        return bool(self.asked)

    def look(self) -> None:
        """Find the node, by its name or by the allocation."""
        ironic = self.cloud.baremetal
        self.allocation = None
        with contextlib.suppress(exceptions.NotFoundException):
            self.allocation = ironic.get_allocation(self.machine.name)
        given = self.allocation.node_id if self.allocation else None
        found = self.machine.name if self.machine.node else given
        self.node = ironic.find_node(found) if found else None

    def up(self, start: Start) -> bool:
        """Look once and ask for what comes next; whether it is active. Raises Refused."""
        self.look()
        if self.node is None and self.machine.node:
            self._enrol()
            return False
        if self.node is None:
            return self._given()
        self._check_sound()
        state = self.node.provision_state
        if state == "active":
            self._check_mine()
            self._power_on()
            return True
        if state == "manageable":
            self._prepare()
        elif state in ("available", "deploy failed"):
            self._check_found()
            if self._given():
                self._deploy(start)
        elif state in UP:
            self._tell()
            self._ask(UP[state])
        return False

    def down(self) -> bool:
        """Look once and ask for what comes next; whether nothing of it is left. Raises Refused."""
        self.look()
        if self.node is None:
            if self.allocation:
                self.cloud.baremetal.delete_allocation(self.allocation)
            return self.allocation is None
        self._check_sound(maintenance=False)
        state = self.node.provision_state
        if state in DOWN:
            self._ask(DOWN[state])
        elif state in ("available", "manageable", "enroll", "inspect failed", "clean failed"):
            if self.allocation:
                self.cloud.baremetal.delete_allocation(self.allocation)
            if self.machine.node:
                self._forget(state)
        return False

    def _forget(self, state: str) -> None:
        """Of a node that was enrolled for the testbed, nothing stays."""
        if state.endswith("failed"):
            self._ask("manage")
        else:
            self.asked.append("delete")
            self.cloud.baremetal.delete_node(self.node)

    def _ask(self, verb: str, **more: Any) -> None:
        self.asked.append(verb)
        self.cloud.baremetal.set_node_provision_state(self.node, verb, **more)

    def _check_sound(self, *, maintenance: bool = True) -> None:
        """Raises Refused for a node that has failed in what was asked, or must not be used."""
        node, last = self.node, self.asked[-1] if self.asked else ""
        if node.provision_state == FAILED.get(last, "none"):
            said = node.last_error or f"it ended in {node.provision_state!r} and says no cause"
            raise faults.refused(self.machine.host, said)
        if maintenance and node.is_maintenance:
            why = node.maintenance_reason or "nobody said why"
            raise faults.refused(self.machine.host, f"{node.name or node.id} in maintenance: {why}")

    def _check_mine(self) -> None:
        if self.allocation is None or self.node.instance_id != self.allocation.id:
            raise Refused(
                "a node that is in use is the testbed's by its allocation",
                given=f"{self.machine.host}: {self.node.name} is active without "
                f"allocation {self.machine.name}",
                then="somebody else uses it: have it undeployed, then give the same command again",
            )

    def _enrol(self) -> None:
        self.asked.append("enrol")
        given = {key: value for key, value in self.machine.node.items() if key != "ports"}
        given["properties"] = _told(given.get("properties", {}))
        self.cloud.baremetal.create_node(
            **{"deploy_interface": self.machine.enrolled, **given},
            name=self.machine.name,
            resource_class=self.machine.resource_class,
            extra={TAG: self.testbed},
            is_automated_clean_enabled=False,
            provision_state="enroll",
        )

    def _tell(self) -> None:
        """A node that is not sound yet may have been told something wrong."""
        info = self.machine.node.get("driver_info")
        if info:
            self.cloud.baremetal.update_node(self.node, driver_info=dict(info))

    def _prepare(self) -> None:
        self._fit()
        if "inspect" not in self.asked and not self._blind:
            self._ask("inspect")
            return
        self._check_found()
        step = CLEANING.get(self.machine.clean)
        if step and "clean" not in self.asked:
            self._ask("clean", clean_steps=[{"interface": "deploy", "step": step}])
        else:
            self._ask("provide")

    @property
    def _blind(self) -> bool:
        return bool(self.node.inspect_interface == BLIND)

    def _check_found(self) -> None:
        if not self._blind:
            check_found(self.machine, self.node.properties)

    def _fit(self) -> None:
        """What may have changed in the inventory since it was enrolled, or was not told then."""
        ironic = self.cloud.baremetal
        if self.machine.node and self.node.deploy_interface != self.machine.enrolled:
            ironic.update_node(self.node, deploy_interface=self.machine.enrolled)
        there = {port.address for port in ironic.ports(node=self.node.id)}
        for address in self.machine.ports:
            if address not in there:
                ironic.create_port(node_id=self.node.id, address=address)

    def _given(self) -> bool:
        """Whether the testbed has a node; it is asked for. Raises Refused where none is free."""
        if self.allocation and self.allocation.state == "error":
            said = self.allocation.last_error
            self.cloud.baremetal.delete_allocation(self.allocation)
            if "allocate" in self.asked:
                raise faults.refused(self.machine.host, said or "it gives no node")
            self.allocation = None
        if self.allocation is None:
            self.asked.append("allocate")
            only = {"candidate_nodes": [self.node.id]} if self.node else {}
            self.cloud.baremetal.create_allocation(
                **only,
                name=self.machine.name,
                resource_class=self.machine.resource_class,
                extra={TAG: self.testbed},
            )
            return False
        return bool(self.node and self.allocation.state == "active")

    def _deploy(self, start: Start) -> None:
        ironic = self.cloud.baremetal
        in_memory = self.machine.deploy == "ramdisk"
        if in_memory and not str(self.node.boot_interface).endswith(MEDIA):
            raise Refused(
                "a node that runs from its memory is told its host key on a medium that its BMC "
                "inserts, as Ironic does it over Redfish",
                given=f"{self.machine.host}: {self.node.name} has the boot interface "
                f"{self.node.boot_interface}",
                then=f"use a driver and boot_interface: {MEDIA} where the BMC can do it, or have "
                "its disk written: openstack_deploy: direct",
            )
        macs = sorted(port.address for port in ironic.ports(node=self.node.id))
        if not macs:
            raise Refused(
                "the interface by which a node is reached is known: inspection finds it, or the "
                "inventory says it",
                example='openstack_node: {ports: ["52:54:00:00:00:01"], …}',
                given=f"{self.machine.host}: no port of {self.node.name} is known",
                then="name its address, or for a node that was there: "
                "openstack baremetal port create MAC --node NODE",
            )
        self._tell()
        ironic.update_node(self.node, instance_info=start.info(self.machine.deploy))
        self._ask("active", config_drive=start.drive(self.machine, macs[0]))

    def _power_on(self) -> None:
        if self.node.power_state == OFF and "power on" not in self.asked:
            self.asked.append("power on")
            self.cloud.baremetal.set_node_power_state(self.node, "power on")


def told(cloud: Any, way: Way) -> dict[str, str]:
    """When a machine was given to the testbed, and when its deploy ended, by Ironic's clock."""
    seen = cloud.baremetal.get(f"/nodes/{way.node.id}").json()  # the SDK passes the second over
    return {
        "asked": way.allocation.created_at or "",
        "active": seen.get("provision_updated_at") or "",
    }


def _told(properties: Mapping[str, Any]) -> dict[str, Any]:
    """What no inspection finds."""
    return {name: value for name, value in properties.items() if name not in FOUND}


def check_found(machine: Machine, properties: Mapping[str, Any]) -> None:
    """Raises Refused where inspection found something else than the inventory says."""
    said = machine.node.get("properties", {})
    wrong = [
        f"{name} {properties.get(name)}, not {said[name]}"
        for name in FOUND
        if name in said and not _alike(name, properties.get(name), said[name])
    ]
    if wrong:
        raise Refused(
            "a node is what the inventory says of it, as inspection finds it",
            given=f"{machine.host}: it has {', '.join(wrong)}",
            then="look at the machine for a part that has failed, or correct openstack_node",
        )


def _alike(name: str, found: Any, said: Any) -> bool:
    # Redfish tells whole GiB (MemorySummary.TotalSystemMemoryGiB): of 4864 MiB, 4096.
    if name == "memory_mb" and found is not None:
        return int(found) // 1024 == int(said) // 1024
    return str(found) == str(said)


Reached = Callable[[str], str]


def bring(
    ways: Iterable[Way], starts: Mapping[str, Start], reached: Reached, patience_s: float
) -> None:
    """Bring machines to where each answers with its host key; `reached` is the key at an address.

    Raises Refused for one that fails, and for one that does not answer after `patience_s` seconds.
    """
    left, deadline = list(ways), time.monotonic() + patience_s
    while True:
        active = [way for way in left if way.up(starts[way.machine.host])]
        keys = {way.machine.host: reached(way.machine.ip) for way in active}
        here = {host for host, key in keys.items() if key == starts[host].host_public}
        left = [way for way in left if way.machine.host not in here]
        if not left:
            return
        if time.monotonic() > deadline:
            raise _late(left[0], keys.get(left[0].machine.host, ""), patience_s)
        time.sleep(LOOK_S)


def take(ways: Iterable[Way], patience_s: float) -> None:
    """Give machines back. Raises Refused for one that cannot be, or not in `patience_s` seconds."""
    left, deadline = list(ways), time.monotonic() + patience_s
    while left := [way for way in left if not way.down()]:
        if time.monotonic() > deadline:
            raise _late(left[0], "", patience_s)
        time.sleep(LOOK_S)


def _late(way: Way, other: str, patience_s: float) -> Refused:
    state = way.node.provision_state if way.node else "not found"
    answers = f", and {way.machine.ip} answers with another host key" if other else ""
    power = f", {way.node.power_state}" if way.node else ""
    return Refused(
        "a node goes from one state to the next, and answers by SSH with the host key that it was "
        "given, within openstack_patience",
        given=f"{way.machine.host}: {state}{power} after {patience_s:.0f} s{answers}",
        then="look at its console, and at the log of ironic-conductor; the same command goes on",
    )
