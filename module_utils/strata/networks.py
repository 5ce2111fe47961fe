"""The networks that a platform can have: what carries a program's packets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """One network, for all who have to know of it."""

    name: str
    runtimes: tuple[str, ...]
    # How members of a trial on several hosts reach each other: at the `address` of their host, by
    # the `name` of their program, which the network's own name service knows, or by `none`.
    peers: str = "address"
    # What has to be switched to, at a cost, before it carries anything; '' if switching is free.
    setting: str = ""
    # What the runtime itself calls it, where that is another name.
    called: str = ""


NETWORKS = {
    network.name: network
    for network in (
        Network("bridge", ("docker",)),
        Network("host", ("native", "docker")),
        Network("none", ("docker",), peers="none"),
        Network("docker_overlay", ("docker",), peers="name", called="strata-overlay"),
    )
}


def of(runtime: str) -> list[str]:
    """The networks that a runtime can have; the first is what it has unless stated."""
    return [network.name for network in NETWORKS.values() if runtime in network.runtimes]


def get(name: str) -> Network:
    """The network of that name, which a plan has checked."""
    return NETWORKS[name]
