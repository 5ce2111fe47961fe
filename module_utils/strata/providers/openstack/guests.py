"""Servers on their way: until each is active, and has told the host key by which it is known."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openstack import exceptions

from ...errors import Refused
from ..guest.keys import Guest, known
from . import faults

# As cloud-init writes them to the console, and the guests of Strata's own image.
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/=]{60,80}")
IPV4 = 4
LOOK_S = 1.0


def host_key(console: str) -> str:
    """The newest host key that the guest has told on its console; '' before it has."""
    told = console.rpartition(BEGIN)[2] if BEGIN in console else ""
    found = KEY.search(told.partition(END)[0]) if END in told else None
    return found[0] if found else ""


def address(
    addresses: Mapping[str, Iterable[Mapping[str, Any]]], network: str, *, floating: bool = False
) -> str:
    """The server's IPv4 address, or its `floating` one; '' before it has it.

    One that somebody else gave it is as good as one that was asked for.
    """
    every = [entry for entry in addresses.get(network, []) if entry["version"] == IPV4]
    outside = [entry for entry in every if entry.get("OS-EXT-IPS:type") == "floating"]
    found = outside or ([] if floating else every)
    return str(found[0]["addr"]) if found else ""


@dataclass(frozen=True)
class Asked:
    """What was asked of the cloud: by host the server's id, the devices and the host key that it is
    given; and whether servers have floating addresses.
    """

    servers: Mapping[str, str]
    network: str
    devices: Mapping[str, str]
    floating: bool = False
    host_keys: Mapping[str, str] = field(default_factory=dict)


def look(cloud: Any, asked: Asked, pinned: Path) -> dict[str, Guest]:
    """The guests that are there by now, by host. Raises Refused for a fault.

    A server whose key is pinned is asked for no other.
    """
    before = known(pinned)
    found = {host: _guest(cloud, host, asked, before) for host in asked.servers}
    return {host: guest for host, guest in found.items() if guest}


def wait(cloud: Any, asked: Asked, pinned: Path, patience_s: float) -> dict[str, Guest]:
    """The guests by host, once all of them are there.

    Raises Refused for a fault, and for one that has not begun after `patience_s` seconds.
    """
    deadline = time.monotonic() + patience_s
    while len(found := look(cloud, asked, pinned)) < len(asked.servers):
        if time.monotonic() > deadline:
            raise _late(cloud, asked, found, patience_s)
        time.sleep(LOOK_S)
    return found


def _guest(
    cloud: Any, host: str, asked: Asked, before: Mapping[str, tuple[str, str]]
) -> Guest | None:
    server = asked.servers[host]
    try:
        seen = cloud.compute.get_server(server)
    except exceptions.NotFoundException:
        raise Refused(
            "a server that was asked for is there until the testbed is taken down",
            given=f"{host}: its server {server} is gone",
            then="somebody has deleted it; the same command makes another one",
        ) from None
    if seen.status == "ERROR" and not seen.fault:
        # Nova writes the fault right after the status.
        time.sleep(LOOK_S)
        seen = cloud.compute.get_server(server)
    if seen.status == "ERROR":
        said = (seen.fault or {}).get("message", "it says no cause")
        raise faults.refused(host, said, asked.devices.get(host, ""))
    at = address(seen.addresses or {}, asked.network, floating=asked.floating)
    if seen.status != "ACTIVE" or not at:
        return None
    key = before.get(server, ("", ""))[1] or asked.host_keys.get(host)
    key = key or host_key(_console(cloud, server))
    return Guest(server, at, key) if key else None


def told(cloud: Any, server: str) -> dict[str, str]:
    """When a server was asked for and was active, by the cloud's own clock."""
    seen = cloud.compute.get_server(server)
    return {"asked": seen.created_at or "", "active": seen.launched_at or ""}


def _console(cloud: Any, server: str) -> str:
    """What the guest has said; nothing where its host has no console for it yet."""
    try:
        return cloud.compute.get_server_console_output(server)["output"] or ""
    except (exceptions.NotFoundException, exceptions.ConflictException):
        return ""


def _late(cloud: Any, asked: Asked, found: Mapping[str, Guest], patience_s: float) -> Refused:
    host = next(name for name in asked.servers if name not in found)
    if host in asked.host_keys:
        return Refused(
            "a server is active, with an address, before it is given up",
            given=f"{host}: not after {patience_s:.0f} s",
            then="see how far it is: openstack server show; a machine may need a longer "
            "openstack_patience, and the same command goes on",
        )
    lines = _console(cloud, asked.servers[host]).splitlines()
    last = [line for line in lines if line.strip()][-3:]
    return Refused(
        "a server tells its host key on its console when it has begun",
        given=f"{host}: nothing after {patience_s:.0f} s; the console ends: {' / '.join(last)}",
        then="look at the whole console: openstack console log show; an image of your own needs "
        "cloud-init, or what roles/guest_system/files/guest has",
    )
