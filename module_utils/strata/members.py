"""Who takes part in a trial: one worker, or several with parameter servers, and where they are.

A lone trial is the case of one worker and no server.
"""

from __future__ import annotations

from typing import Any

from . import networks

# How the gradients of several workers come together; docs/distributed.md.
DISTRIBUTIONS = ("none", "ring", "ps_async", "ps_sync")
# spread: a worker on each host; packed: all on one host, a program each; together: all in one
# program on one host, pinned to CPUs of their own.
PLACEMENTS = ("spread", "packed", "together")
# Each member of a trial has a port of its own, from the first on.
FIRST_PORT = 29400
LAST_PORT = 65535
MOST_MEMBERS = LAST_PORT - FIRST_PORT + 1
# Seconds for which a member looks for its peers, and for which one of them may say nothing.
FIND_S = 90.0
SILENT_S = 20.0

Member = dict[str, Any]  # role, index, host, port


def roster(workers: int, servers: int, hosts: list[str]) -> list[Member]:
    """Workers on the hosts in turn, and so the servers, beginning with the first host."""
    found = []
    for role, count in (("worker", workers), ("server", servers)):
        for index in range(count):
            found.append({"role": role, "index": index, "host": hosts[index % len(hosts)]})
    return [{**member, "port": FIRST_PORT + n} for n, member in enumerate(found)]


def name(trial: dict[str, Any], member: Member) -> str:
    """Of the member's program: unique among all that run at the same time."""
    alone = len(trial["members"]) == 1 or trial["levels"]["placement"] == "together"
    return str(trial["trial"]) + ("" if alone else f"-{member['role']}{member['index']}")


def own_network(levels: dict[str, Any]) -> bool:
    """Whether peers on one host talk over a bridge that is made for their trial."""
    return bool(levels["network"] == "bridge" and levels["placement"] == "packed")


def cluster(
    trial: dict[str, Any], member: Member, addresses: dict[str, str], key: str
) -> dict[str, Any]:
    """What a member is told of its peers: the key `cluster` of config.json."""

    def listed(role: str) -> list[str]:
        chosen = [other for other in trial["members"] if other["role"] == role]
        return [_address(trial, other, addresses) for other in chosen]

    return {
        "mode": trial["levels"]["distribution"],
        "role": member["role"],
        "index": member["index"],
        "workers": listed("worker"),
        "servers": listed("server"),
        "listen": member["port"],
        "key": key,
        "find_s": FIND_S,
        "silent_s": SILENT_S,
    }


def _address(trial: dict[str, Any], member: Member, addresses: dict[str, str]) -> str:
    levels = trial["levels"]
    if levels["placement"] == "together":
        host = "127.0.0.1"
    elif networks.get(levels["network"]).peers == "name" or own_network(levels):
        host = name(trial, member)
    else:
        host = addresses[member["host"]]
    return f"{host}:{member['port']}"


def pins(members: list[Member], cpus: list[int]) -> list[list[int]]:
    """Disjoint CPUs for each member; spare ones go to worker 0, the chief (WSU 2018, section 4.3).

    Where there are more members than CPUs they share them in turn.
    """
    if len(members) > len(cpus):
        return [[cpus[n % len(cpus)]] for n in range(len(members))]
    spare = cpus[len(members) :]
    chief = next(n for n, m in enumerate(members) if (m["role"], m["index"]) == ("worker", 0))
    return [[cpus[n], *(spare if n == chief else [])] for n in range(len(members))]


def on(host: str, trial: dict[str, Any]) -> list[Member]:
    """The members on one host."""
    return [member for member in trial["members"] if member["host"] == host]


def programs(host: str, trial: dict[str, Any]) -> list[list[Member]]:
    """The members on one host, by the program that holds them."""
    here = on(host, trial)
    if trial["levels"]["placement"] == "together":
        return [here] if here else []
    return [[member] for member in here]
