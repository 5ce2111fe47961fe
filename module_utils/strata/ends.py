"""Where the two ends of a test stand, and by which way the client reaches the server.

A workload of a client and a server has both as options (`workloads/_ends.py`); the hosts act on
them. An end that is not on the network under test stands on its host's own, under the same runtime:
so what the network costs at one end is told from what it costs at the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import networks
from .cell import Cell, Levels

ENDS, BOTH = "ends", "both"
THROUGH, ADDRESS, SERVICE = "through", "address", "service"
# By level, the role whose member stands on its host's own network.
ON_HOST = {BOTH: "", "client_only": "server", "server_only": "client"}
# What they are on the host's own network, where there is one place to stand and one way.
USUAL: Levels = {ENDS: BOTH, THROUGH: ADDRESS}


def on_host(options: Mapping[str, Any], role: str) -> bool:
    """Whether the member of that role stands on its host's own network."""
    return ON_HOST[options.get(ENDS, BOTH)] == role


def served(options: Mapping[str, Any], role: str) -> bool:
    """Whether the member of that role is reached through a service."""
    return role == "server" and options.get(THROUGH, ADDRESS) == SERVICE


def why_not(cell: Cell) -> str:
    """Why the ends of a cell cannot be had, or ''."""
    network = networks.get(cell.platform.network)
    if cell.options.get(ENDS, BOTH) != BOTH:
        if cell.platform.runtime in networks.OF_THE_HOST:
            return f"under {cell.platform.runtime} every program is on its host's own network"
        if not network.host_ends:
            return f"a program on its host's own network is no end of {network.name}"
    if cell.options.get(THROUGH, ADDRESS) == SERVICE:
        if not network.services:
            return f"{network.name} puts no service before a program"
        if on_host(cell.options, "server"):
            return "a service leads to the host of a server that is not on the network, around it"
    return ""
