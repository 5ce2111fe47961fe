"""Machines on their way: until each runs and its address is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import Refused
from .domain import Asked, Place, mac, name

LOOK_S = 1.0
# States of a domain by libvirt's numbers; a guest that its CPU cannot run is paused or crashed.
RUNNING, PAUSED, OFF, CRASHED = 1, 3, 5, 6
SAID = {PAUSED: "is paused", OFF: "is off", CRASHED: "has crashed"}
IPV4 = 0


@dataclass(frozen=True)
class Machine:
    """One that has begun."""

    instance: str
    address: str


def look(connection: Any, place: Place, asked: Mapping[str, Asked]) -> dict[str, Machine]:
    """Those that have begun, by host. Raises Refused for one that has ended."""
    there = {one.name(): one for one in connection.listAllDomains()}
    leases = _leases(connection, place)
    found = {}
    for host, wanted in asked.items():
        domain = there.get(name(place.testbed, host))
        if domain is None:
            continue
        state = domain.state()[0]
        if state in SAID:
            raise _ended(host, SAID[state], place)
        at = wanted.address.partition("/")[0] or leases.get(mac(place.testbed, host), "")
        if state == RUNNING and at:
            found[host] = Machine(domain.UUIDString(), at)
    return found


def wait(
    looks: Callable[[], Mapping[str, Machine]], place: Place, hosts: list[str], patience_s: float
) -> Mapping[str, Machine]:
    """All machines by host, once each has begun. Raises Refused for one that does not."""
    deadline = time.monotonic() + patience_s
    while missing := set(hosts) - (found := looks()).keys():
        if time.monotonic() > deadline:
            raise _late(min(missing), place, patience_s)
        time.sleep(LOOK_S)
    return found


def _leases(connection: Any, place: Place) -> dict[str, str]:
    """The newest IPv4 address by the address of the card."""
    if place.link != "network":
        return {}
    leases = connection.networkLookupByName(place.network).DHCPLeases()
    newest = sorted(leases, key=lambda lease: int(lease["expirytime"]))
    return {lease["mac"]: lease["ipaddr"] for lease in newest if lease["type"] == IPV4}


def _console(place: Place, host: str) -> str:
    path = Path(place.folder) / f"{host}.log"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    last = [line.strip() for line in lines if line.strip()][-3:]
    return f"its console ends: {' / '.join(last)}" if last else "its console says nothing"


def _ended(host: str, how: str, place: Place) -> Refused:
    return Refused(
        "a machine that was started runs",
        given=f"{host} {how}, by {place.accelerator}; {_console(place, host)}",
        then="look at the log of QEMU on the libvirt host (/var/log/libvirt/qemu); where KVM is "
        "there and runs no ordinary kernel: libvirt_accelerator: tcg",
    )


def _late(host: str, place: Place, patience_s: float) -> Refused:
    return Refused(
        "a machine that was started asks for an address within libvirt_patience",
        given=f"{host}: none after {patience_s:.0f} s; {_console(place, host)}",
        then=f"look at its whole console: {host}.log in {place.folder} on the libvirt host",
    )
