"""The networks that a platform can have: what carries a program's packets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .errors import Refused


@dataclass(frozen=True)
class Network:
    """One network, for all who have to know of it."""

    name: str
    runtimes: tuple[str, ...]
    # How members of a trial on several hosts reach each other: at the `address` of their host, by
    # the `name` of their program, which the network's own name service knows, at the `place` that
    # the setting gives each of them on the network, or by `none`.
    peers: str = "address"
    # What has to be switched to, at a cost, before it carries anything; '' if switching is free.
    setting: str = ""
    # The role that switches to the setting and leaves it again, by the entry points that
    # docs/settings.md describes: `check`, `present`, `absent` and `prove`.
    role: str = ""
    # What the runtime itself calls it, where that is another name.
    called: str = ""
    # Names of the processes that carry its packets on a host: their CPU time is the platform's.
    daemons: tuple[str, ...] = ()
    # Bytes of headers that it puts before each packet between two hosts, over IPv4
    # (docs/networks.md says which).
    headers: int = 0
    # Whether a program on its host's own network and one on this network reach each other, so that
    # one end of a test can stand there (`strata.ends`).
    host_ends: bool = False
    # Whether a service can stand before a program: an address for whoever runs behind it.
    services: bool = False
    # Whether its programs are in their host's own network, whatever the runtime.
    of_host: bool = False
    # Whether the packet filter's rules are out of the way while a trial runs.
    unfiltered: bool = False
    # Whether it is what a cluster that exists has: nobody switches to it, and it is on no other
    # host.
    given: bool = False


# The runtimes whose programs are in the network of their host, whatever there is in it.
OF_THE_HOST = ("native", "apptainer")
EVERY = (*OF_THE_HOST, "docker", "kubernetes")

NETWORKS = {
    network.name: network
    for network in (
        Network("bridge", ("docker",), host_ends=True),
        Network("host", EVERY, of_host=True),
        Network(
            *("host_unfiltered", EVERY, "address", "host_unfiltered", "packet_filter"),
            of_host=True,
            unfiltered=True,
        ),
        Network("none", ("docker",), peers="none"),
        Network(
            *("vxlan", (*OF_THE_HOST, "docker"), "place", "vxlan", "vxlan", "strata-vxlan"),
            headers=50,
            host_ends=True,
        ),
        Network("macvlan", ("docker",), "place", "macvlan", "macvlan", called="strata-macvlan"),
        Network("ipvlan", ("docker",), "place", "ipvlan", "macvlan", called="strata-ipvlan"),
        Network("wireguard", OF_THE_HOST, "place", "wireguard", "wireguard", headers=60),
        Network(
            *("wireguard_go", OF_THE_HOST, "place", "wireguard_go", "wireguard"),
            daemons=("wireguard-go",),
            headers=60,
        ),
        *(
            Network(
                *(name, ("docker",), "name", name, "docker_overlay", "strata-overlay"),
                headers=headers,
            )
            for name, headers in (("docker_overlay", 50), ("docker_overlay_encrypted", 76))
        ),
        *(
            Network(
                *(f"flannel_{backend}", ("kubernetes",), "name", f"flannel_{backend}", "flannel"),
                daemons=("flanneld",),
                headers=headers,
                host_ends=True,
                services=True,
            )
            for backend, headers in (("vxlan", 50), ("host_gw", 0), ("udp", 28), ("wireguard", 80))
        ),
        *(
            Network(
                *(name, ("kubernetes",), "name", name, "calico"),
                daemons=daemons,
                headers=headers,
                host_ends=True,
                services=True,
            )
            for name, daemons, headers in (
                ("calico", ("calico-node",), 50),
                ("calico_ipip", ("calico-node", "bird", "confd"), 20),
                ("calico_bgp", ("calico-node", "bird", "confd"), 0),
            )
        ),
        *(
            Network(
                *(name, ("kubernetes",), "name", name, "cilium"),
                daemons=("cilium-agent", "cilium-operator"),
                headers=headers,
                host_ends=True,
                services=True,
            )
            for name, headers in (
                ("cilium", 50),
                ("cilium_without_kube_proxy", 50),
                ("cilium_native", 0),
            )
        ),
        Network("cluster", ("kubernetes",), "name", services=True, given=True),
    )
}


def of(runtime: str) -> list[str]:
    """The networks that a runtime can have; the first is what it has unless stated."""
    return [network.name for network in NETWORKS.values() if runtime in network.runtimes]


def get(name: str) -> Network:
    """The network of that name, which a plan has checked."""
    return NETWORKS[name]


def role_of(setting: str) -> str:
    """The role that switches to a setting. Raises Refused where no network needs that setting."""
    roles = [network.role for network in NETWORKS.values() if network.setting == setting]
    if not roles or not roles[0]:
        known = sorted({network.setting for network in NETWORKS.values()} - {""})
        raise Refused(
            f"a role switches to the setting {setting!r}",
            example="Network('toy', ('native',), setting='toy', role='toy')",
            given=f"settings of the known networks: {', '.join(known) or 'none'}",
            then="use the checkout that this run was begun with, or begin a new run",
        )
    return roles[0]


def is_unfiltered(setting: str) -> bool:
    """Whether some trials of the setting are run without the packet filter's rules."""
    return any(n.unfiltered and n.setting == setting for n in NETWORKS.values())


def why_not(name: str, has: Collection[str] | None) -> str:
    """Why a host cannot have a network, or ''.

    `has` are those of a host whose networks are as they are; None where they are switched.
    """
    if has is None:
        return f"{name} is the network of a cluster that exists already" * NETWORKS[name].given
    if name in has:
        return ""
    return f"{name} is no network of a cluster that is used as it is, which has {', '.join(has)}"


def daemons() -> set[str]:
    """The names of the processes that any network runs on a host."""
    return {name for network in NETWORKS.values() for name in network.daemons}
