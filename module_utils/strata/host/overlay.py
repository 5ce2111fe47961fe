"""What a host can do for an overlay: features of its kernel, a range of addresses, room in packets.

All of it is tried or read on the host, before anything of the overlay is made.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from ..errors import Refused
from .facts import PROGRAMS, read_text

Range = ipaddress.IPv4Network

# Each feature by what is tried, in a network namespace that ends with the try (`ip -batch`).
CABLE = "link add strata0 type veth peer name strata1"
FEATURES = {
    "vxlan": ("VXLAN", ["link add strata2 type vxlan id 1 dstport 4789"]),
    "bridge": ("bridges", ["link add strata2 type bridge"]),
    "macvlan": ("macvlan", [CABLE, "link add link strata0 name strata2 type macvlan mode bridge"]),
    "ipvlan": ("ipvlan", [CABLE, "link add link strata0 name strata2 type ipvlan mode l2"]),
    "wireguard": ("WireGuard", ["link add strata2 type wireguard"]),
    "ipip": ("IPIP", ["link add strata2 type ipip local 127.0.0.1 remote 127.0.0.2"]),
    "tun": ("TUN devices (/dev/net/tun)", ["tuntap add mode tun name strata2"]),
    "esp": (
        "ESP, which encrypts (xfrm, esp4)",
        [
            "xfrm state add src 127.0.0.1 dst 127.0.0.2 proto esp spi 1 mode transport"
            f" aead rfc4106(gcm(aes)) 0x{'00' * 20} 64"
        ],
    ),
}
# Others, each by the file system that the kernel then knows.
FILE_SYSTEMS = {"ebpf": ("eBPF", "bpf")}
# Of the range of a host: its own address, that of the proof's container, that of the first member.
HOST, PROOF, MEMBERS = 1, 2, 128
HOST_BITS = 8  # of an address, which count within the range of one host
MOST_HOSTS = 254


@dataclass(frozen=True)
class Found:
    """What a host has for an overlay."""

    parent: str  # the device that has the host's address
    mtu: int  # bytes that are left to a packet within the overlay
    subnet: str
    places: dict[str, dict[str, str]]  # by host; see `places`


def look(
    network: str,
    needs: Iterable[str],
    subnet: str,
    hosts: dict[str, str],
    host: str,
    own: Iterable[str] = (),
    overhead: int = 0,
    mtu: int = 0,
    others: Iterable[str] = (),
    there: str = "",
) -> Found:
    """Try the features that a network needs, and find room for it.

    `hosts` are those of the setting, with their addresses; `own` are devices of the network itself,
    which may be there from before; `overhead` in bytes is what it adds to a packet; `mtu` 0 is all
    that is left then. Of `others`, ranges, it gives out addresses by itself; `there` is a path that
    is on a host which has the network: routes to them are then its. Raises Refused with what is
    missing or in the way.
    """
    if os.geteuid() != 0:
        raise Refused(
            f"{network} needs root on {host}",
            example="ansible_become: true",
            given=f"account {os.geteuid()}",
            then="set ansible_become in the inventory, or leave the network out",
        )
    if len(hosts) == 1:
        raise Refused(
            f"{network} is proven by traffic between hosts, of which it needs two",
            given=f"measured on {', '.join(hosts)} alone",
            then=f"measure it on two hosts, or leave {network} out",
        )
    for name in needs:
        _try(network, host, name)
    found = places(network, subnet, hosts)
    ranges = [each for each in (subnet, *others) if each]
    for each in ranges:
        places(network, each, hosts)
    _check_apart(network, ranges)
    for each in [subnet] if there and Path(there).exists() else ranges:
        if each:
            _check_overlap(network, host, Range(each), set(own))
    device = _device(hosts[host], host)
    room = min([device["mtu"], *map(_mtu_to, filter(None, hosts.values()))]) - overhead
    if mtu > room:
        raise Refused(
            f"a packet of {network} is not larger than what the path leaves to it",
            given=f"MTU {mtu} asked for; on {host} {room + overhead} less {overhead} of headers"
            f" leave {room}",
            then=f"set the network's MTU to at most {room}, or leave it to Strata with 0",
        )
    return Found(device["ifname"], mtu or room, subnet, found)


def places(network: str, subnet: str, hosts: Iterable[str]) -> dict[str, dict[str, str]]:
    """The addresses of each host out of a subnet, a range of 256 for each, in their order.

    `host` is its own, `proof` that of a container that proves the network, `members` the first of
    those that programs of trials get, `range` all of them. Raises Refused.
    """
    if not subnet:
        return {}
    hosts = list(hosts)
    try:
        whole = Range(subnet)
    except ValueError:
        whole = Range("0.0.0.0/32")
    if whole.num_addresses < (len(hosts) + 1) << HOST_BITS or len(hosts) > MOST_HOSTS:
        raise Refused(
            f"{network} has a range of 256 addresses for each of its hosts, and one more",
            example="10.214.0.0/16",
            given=f"subnet {subnet!r}, {len(hosts)} hosts",
            then="give it a larger subnet of its own",
        )
    found = {}
    for number, name in enumerate(hosts, 1):
        first = whole.network_address + (number << HOST_BITS)
        parts = {"host": HOST, "proof": PROOF, "members": MEMBERS}
        found[name] = {
            **{part: str(first + offset) for part, offset in parts.items()},
            "range": f"{first}/{32 - HOST_BITS}",
        }
    return found


def _try(network: str, host: str, name: str) -> None:
    """Raises Refused where the kernel has not the feature."""
    if name in FILE_SYSTEMS:
        called, wanted = FILE_SYSTEMS[name]
        has = wanted in read_text(Path("/proc/filesystems")).split()
        said = "" if has else f"/proc/filesystems does not name {wanted}"
    else:
        called, lines = FEATURES[name]
        command = ["unshare", "--net", _ip(), "-batch", "-"]
        done = subprocess.run(
            command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
        )
        said = " ".join(done.stderr.split()) if done.returncode else ""
    if said:
        raise Refused(
            f"{network} needs {called}, which the kernel of {host} does not have",
            given=said,
            then=f"load the module on {host}, or leave the network out",
        )


def _check_apart(network: str, ranges: Iterable[str]) -> None:
    """Raises Refused where two of the network's own ranges have an address in common."""
    for one, other in combinations(map(Range, ranges), 2):
        if one.overlaps(other):
            raise Refused(
                f"the ranges of {network} have no address in common",
                example="10.218.0.0/16 and 10.219.0.0/16",
                given=f"{one} and {other}",
                then="give each of them a range of its own",
            )


def _check_overlap(network: str, host: str, subnet: Range, own: set[str]) -> None:
    """Raises Refused where the host has a route to a part of the subnet."""
    for route in _ask("route", "show", "table", "all", "type", "unicast"):
        if route["dst"] == "default" or route.get("dev") in own:
            continue
        other = Range(route["dst"], strict=False)
        if other.overlaps(subnet):
            raise Refused(
                f"the subnet of {network} is nobody else's",
                given=f"{subnet}, and on {host} {other} by {route.get('dev', 'a route')}",
                then="give it a range that no host has a route to, or remove what is left over",
            )


def _device(address: str, host: str) -> dict[str, Any]:
    """The link that has the address. Raises Refused where none has."""
    for link in _ask("addr", "show"):
        if any(one.get("local") == address for one in link.get("addr_info", [])):
            return link
    raise Refused(
        "an overlay lies on the device that has the host's address",
        given=f"{host} has no device with {address}",
        then="correct strata_address in the inventory",
    )


def _mtu_to(address: str) -> int:
    """That of the route to an address, or of its device."""
    (route, *_) = _ask("route", "get", address)
    locked = [one.get("mtu") for one in route.get("metrics", []) if one.get("mtu")]
    (link, *_) = _ask("link", "show", "dev", route["dev"])
    return int(locked[0] if locked else link["mtu"])


def _ask(*arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [_ip(), "-4", "-json", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Refused(
            "the host has a route to each host of the setting",
            given=f"ip {' '.join(arguments)}: {done.stderr.strip()}",
        )
    return [one for one in json.loads(done.stdout or "[]") if one]


def _ip() -> str:
    return shutil.which("ip", path=PROGRAMS) or "ip"
