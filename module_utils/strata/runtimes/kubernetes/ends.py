"""Where a network of pods is proven on this host: between pods that do nothing, over a device.

Read from the running system: the node's engine and its kernel.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...errors import Refused
from ...host.network_path import address, link, route
from .pods import TASKS, sandboxes


def look(
    namespace: str, apps: Iterable[str], other: str, device: str = "", tasks: Path = TASKS
) -> dict[str, Any]:
    """This host's pods, by the sets that they are of, since when they stand, and the way out.

    `other` is the address of another host, `device` the one that has this host's own address on
    the network; '' where that is the one between the hosts. Raises Refused unless one pod of each
    set runs.
    """
    found = {one: one.pod.rpartition("-")[0] for one in sandboxes(namespace, tasks)}
    if sorted(found.values()) != sorted(apps):
        raise Refused(
            "on each host stands a pod of each set that proves a network",
            given=f"{', '.join(found.values()) or 'none'} in {namespace}, asked for:"
            f" {', '.join(apps)}",
            then="look why they do not run (kubectl describe pods)",
        )
    return {
        "pods": {app: _pod(one.network, other) for one, app in found.items()},
        "under": _device(other),
        "address": address("", device) if device else route("", other).get("prefsrc", ""),
        "stood": time.time() - max(one.made for one in found),
    }


def _pod(path: str, other: str) -> dict[str, str]:
    """The pod whose network is at that path, and its address."""
    return {"namespace": path, "address": route(path, other).get("prefsrc", "")}


def _device(other: str) -> dict[str, Any]:
    """The device by which packets of the host itself leave for another one."""
    found = link("", route("", other).get("dev", ""))
    return {
        "device": found.get("ifname", ""),
        "kind": found.get("linkinfo", {}).get("info_kind", "none"),
        "mtu": found.get("mtu", 0),
    }
