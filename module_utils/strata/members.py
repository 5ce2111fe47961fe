"""The members of a trial as a host knows them: who is here, and where the others are reached.

A plan lists them, the chief first; a lone trial has one.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from . import ends, networks
from .cell import Cell

# How the gradients of several workers come together; docs/distributed.md.
DISTRIBUTIONS = ("none", "ring", "ps_async", "ps_sync")
# spread: a worker on each host; packed: all on one host, a program each; together: all in one
# program on one host, pinned to CPUs of their own.
PLACEMENTS = ("spread", "packed", "together")
# Members of a trial have ports of their own, from the first on.
FIRST_PORT = 29400
LAST_PORT = 65535
MOST_PORTS = LAST_PORT - FIRST_PORT + 1
# Seconds for which a member looks for its peers, and for which one of them may say nothing.
FIND_S = 90.0
SILENT_S = 20.0

# The members of the second trial of a slot have their places after those of the first.
SECOND_PLACES = 64

Places = dict[str, dict[str, str]]
Member = dict[str, Any]  # role, index, host, ports: a list of what `Port` has


@dataclass(frozen=True)
class Port:
    """Where a member listens while its trial runs."""

    name: str
    protocol: str  # tcp, udp
    number: int


def name(trial: dict[str, Any], member: Member) -> str:
    """Of the member's program: unique among all that run at the same time."""
    alone = len(trial["members"]) == 1 or trial["levels"]["placement"] == "together"
    return str(trial["trial"]) + ("" if alone else f"-{member['role']}{member['index']}")


def ports(trial: dict[str, Any], here: list[Member]) -> list[Port]:
    """Where the program of these members is reached from outside of it."""
    if trial["levels"]["placement"] == "together":
        return []
    return [Port(**port) for member in here for port in member["ports"]]


def own_network(cell: Cell) -> bool:
    """Whether peers on one host talk over a bridge that is made for their trial."""
    both = cell.options.get(ends.ENDS, ends.BOTH) == ends.BOTH
    return cell.platform.network == "bridge" and cell.scenario.placement == "packed" and both


def network(cell: Cell, member: Member) -> str:
    """The network that a member's program stands on."""
    return "host" if ends.on_host(cell.options, member["role"]) else cell.platform.network


def service(trial: dict[str, Any], member: Member) -> str:
    """The name of the service through which a member is reached; '' where there is none.

    A trial's own name may begin with a digit, that of a service may not.
    """
    cell = Cell.of(trial["levels"])
    return f"service-{name(trial, member)}" if ends.served(cell.options, member["role"]) else ""


def told(
    trial: dict[str, Any],
    member: Member,
    addresses: dict[str, str],
    key: str,
    places: Places | None = None,
) -> dict[str, Any]:
    """What a member is told of the others in config.json: `cluster` where they train together,
    `peers` where what they say to each other is the workload's own.

    `addresses` are those of the hosts, `places` those that a setting gives on its network.
    """
    cell = Cell.of(trial["levels"])
    where = [_host(trial, cell, peer, addresses, places or {}) for peer in trial["members"]]
    peers = [{**peer, "host": host} for peer, host in zip(trial["members"], where, strict=True)]
    common = {"role": member["role"], "index": member["index"], "key": key}
    limits = {"find_s": FIND_S, "silent_s": SILENT_S}
    if cell.scenario.distribution == "none":
        return {"peers": {**common, **limits, "members": [_peer(peer) for peer in peers]}}
    lists = {f"{role}s": _addresses(peers, role) for role in ("worker", "server")}
    (port,) = member["ports"]
    mode = {"mode": cell.scenario.distribution, "listen": port["number"]}
    return {"cluster": {**common, **limits, **mode, **lists}}


def _peer(peer: Member) -> dict[str, Any]:
    """As the workload has it: its ports by their names."""
    ports = {port["name"]: port["number"] for port in peer["ports"]}
    return {**{key: peer[key] for key in ("role", "index", "host")}, "ports": ports}


def _addresses(peers: list[Member], role: str) -> list[str]:
    chosen = [peer for peer in peers if peer["role"] == role]
    return [f"{peer['host']}:{port['number']}" for peer in chosen for port in peer["ports"]]


def _host(
    trial: dict[str, Any], cell: Cell, member: Member, addresses: dict[str, str], places: Places
) -> str:
    """Where a member's peers reach it."""
    if cell.scenario.placement == "together":
        return "127.0.0.1"
    if ends.on_host(cell.options, member["role"]):
        switched = bool(networks.get(cell.platform.network).setting)
        return places[member["host"]]["host"] if switched else addresses[member["host"]]
    if ends.served(cell.options, member["role"]):
        return service(trial, member)
    if networks.get(cell.platform.network).peers == "name" or own_network(cell):
        return name(trial, member)
    return place(trial, member, places) or addresses[member["host"]]


def from_hosts(trial: dict[str, Any], addresses: dict[str, str], places: Places) -> list[str]:
    """Addresses from which members on their hosts' own network reach those on the one under test.

    A host sends from its address on the network, or, where nothing is put around packets, from
    that at which the other hosts reach it.
    """
    options = Cell.of(trial["levels"]).options
    hosts = {each["host"] for each in trial["members"] if ends.on_host(options, each["role"])}
    there = [places[host]["host"] for host in hosts if host in places]
    return sorted({*there, *(addresses[host] for host in hosts)})


def place(trial: dict[str, Any], member: Member, places: Places) -> str:
    """The address of a member's program on the network of a setting; '' where it gives none.

    That of its host where the program is in the host's own network; else one of its own, which no
    other member has. `places` are by host `{host, members}`, of which the latter is the first.
    """
    cell = Cell.of(trial["levels"])
    if networks.get(network(cell, member)).peers != "place":
        return ""
    there = places[member["host"]]
    if cell.platform.runtime in networks.OF_THE_HOST:
        return there["host"]
    number = trial["members"].index(member)
    second = trial["role"] == "background" or trial.get("side") == 2  # noqa: PLR2004
    number += SECOND_PLACES if second else 0
    return str(ipaddress.IPv4Address(there["members"]) + number)


def pins(members: list[Member], cpus: list[int]) -> list[list[int]]:
    """Disjoint CPUs for each member; spare ones go to the first, the chief (WSU 2018, section 4.3).

    Where there are more members than CPUs they share them in turn.
    """
    if len(members) > len(cpus):
        return [[cpus[n % len(cpus)]] for n in range(len(members))]
    spare = cpus[len(members) :]
    return [[cpus[n], *(spare if n == 0 else [])] for n in range(len(members))]


def on(host: str, trial: dict[str, Any]) -> list[Member]:
    """The members on one host."""
    return [member for member in trial["members"] if member["host"] == host]


def programs(host: str, trial: dict[str, Any]) -> list[list[Member]]:
    """The members on one host, by the program that holds them."""
    here = on(host, trial)
    if trial["levels"]["placement"] == "together":
        return [here] if here else []
    return [[member] for member in here]
