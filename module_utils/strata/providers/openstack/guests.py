"""Servers on their way: until each is active, and has told the host key by which it is known."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import files
from ...errors import Refused
from . import faults

# As cloud-init writes them to the console, and the guests of Strata's own image.
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/=]{60,80}")
IPV4 = 4
LOOK_S = 1.0


@dataclass(frozen=True)
class Guest:
    """A server that has begun: its id, its address, and its host key."""

    server: str
    address: str
    key: str

    def line(self) -> str:
        """That of known_hosts; its comment says which server the key was learnt of."""
        return f"{self.address} {self.key} {self.server}"


def host_key(console: str) -> str:
    """The newest host key that the guest has told on its console; '' before it has."""
    told = console.rpartition(BEGIN)[2] if BEGIN in console else ""
    found = KEY.search(told.partition(END)[0]) if END in told else None
    return found[0] if found else ""


def address(addresses: Mapping[str, Iterable[Mapping[str, Any]]], network: str) -> str:
    """The server's IPv4 address, a floating one where it has one; '' before it has any."""
    every = [entry for entry in addresses.get(network, []) if entry["version"] == IPV4]
    every.sort(key=lambda entry: entry.get("OS-EXT-IPS:type") != "floating")
    return str(every[0]["addr"]) if every else ""


def known(path: Path) -> dict[str, tuple[str, str]]:
    """Address and key by server, as known_hosts has them."""
    lines = path.read_text().splitlines() if path.exists() else []
    fields = [line.split() for line in lines]
    return {server: (at, f"{kind} {key}") for at, kind, key, server in fields}


def write(path: Path, guests: Iterable[Guest]) -> bool:
    """Pin the keys; whether that changed anything."""
    text = "".join(f"{guest.line()}\n" for guest in guests)
    if path.exists() and path.read_text() == text:
        return False
    files.write(path, text.encode())
    return True


def wait(
    cloud: Any, servers: Mapping[str, str], network: str, pinned: Path, patience_s: float
) -> dict[str, Guest]:
    """The guests by host, once all of them are there; `servers` are ids by host.

    A server whose key is pinned is asked for no other. Raises Refused for a fault, and for one
    that has not begun after `patience_s` seconds.
    """
    deadline, before = time.monotonic() + patience_s, known(pinned)
    found: dict[str, Guest] = {}
    while len(found) < len(servers):
        for host, server in servers.items():
            if host not in found and (guest := _guest(cloud, host, server, network, before)):
                found[host] = guest
        if len(found) < len(servers):
            _check_time(cloud, servers, found, deadline, patience_s)
            time.sleep(LOOK_S)
    return {host: found[host] for host in servers}


def _guest(
    cloud: Any, host: str, server: str, network: str, before: Mapping[str, tuple[str, str]]
) -> Guest | None:
    seen = cloud.compute.get_server(server)
    if seen.status == "ERROR":
        raise faults.refused(host, (seen.fault or {}).get("message", "it says no cause"))
    at = address(seen.addresses or {}, network)
    if seen.status != "ACTIVE" or not at:
        return None
    key = before[server][1] if server in before else host_key(_console(cloud, server))
    return Guest(server, at, key) if key else None


def _console(cloud: Any, server: str) -> str:
    return cloud.compute.get_server_console_output(server)["output"] or ""


def _check_time(
    cloud: Any,
    servers: Mapping[str, str],
    found: Mapping[str, Guest],
    deadline: float,
    patience_s: float,
) -> None:
    if time.monotonic() < deadline:
        return
    host = next(name for name in servers if name not in found)
    last = [line for line in _console(cloud, servers[host]).splitlines() if line.strip()][-3:]
    raise Refused(
        "a server tells its host key on its console when it has begun",
        given=f"{host}: nothing after {patience_s:.0f} s; the console ends: {' / '.join(last)}",
        then="look at the whole console: openstack console log show; an image of your own needs "
        "cloud-init, or what roles/openstack/files/guest has",
    )
