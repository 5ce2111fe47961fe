"""An agent: a pod in which modules run, in the place of a node of a cluster that nobody may enter.

Its file says of which node, how much of that it sees, and what the cluster told of it. What a pod
does not see of its node is `UNOBSERVED`: a pod's own value is not its node's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import Refused
from ..fields import UNOBSERVED

# As roles/cluster/templates/agents.yml.j2 has them.
FILE, NODE = Path("/etc/strata/agent.json"), "STRATA_NODE"
BOOT = Path("/proc/sys/kernel/random/boot_id")
MOUNTS = Path("/proc/mounts")
# The root of the node's own files, for an agent that sees its processes.
WHOLE_ROOT = Path("/proc/1/root")
# Keys of a fingerprint, and families of them, that a kernel shows in a pod as on its node.
OF_THE_KERNEL = frozenset((
    "cpu.model", "cpu.flags", "cpu.sockets", "cpu.cores", "cpu.threads", "cpu.smt", "cpu.governor",
    "cpu.frequency_max", "cpu.boost", "cpu.microcode", "cpu.mitigations", "numa.nodes",
    "kernel.release", "kernel.cmdline", "cgroup.version", "memory.total", "swap.total", "thp",
    "filesystem", "machine.model", "clock.source", "clock.synchronised", "python",
    "pci.devices", "pci.simulated", "disk",
))  # fmt: skip
# Families of which a pod has its own, or nothing.
OWN_FAMILIES = ("nic", "gpu")


@dataclass(frozen=True)
class Agent:
    """Of which node, and what of it."""

    node: str
    whole: bool  # it sees the node's processes, network and files, and not its own alone
    networks: tuple[str, ...]  # those that programs can have on the node
    address: str  # of the node
    told: Mapping[str, Any]  # by the cluster, by keys of the fingerprint

    def seen(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Of a fingerprint that was read in this pod what is its node's."""
        if self.whole:
            return {**values, **self.told}
        known = {k: v for k, v in values.items() if k.partition(".")[0] not in OWN_FAMILIES}
        shown = {
            key: value if {key, key.partition(".")[0]} & OF_THE_KERNEL else UNOBSERVED
            for key, value in known.items()
        }
        return {**shown, **dict.fromkeys(OWN_FAMILIES, UNOBSERVED), **self.told}


@cache
def here() -> Agent | None:
    """The agent that this is; None on every other host. Raises Refused where its kernel is not
    that of the node.
    """
    try:
        said = json.loads(FILE.read_text())[os.environ[NODE]]
    except (FileNotFoundError, KeyError):
        return None
    _check(said["boot"])
    return Agent(
        os.environ[NODE],
        said["whole"],
        tuple(said["networks"]),
        said["address"],
        said["told"],
    )


def sees_processes() -> bool:
    """Whether what runs on this host can be told, and what its network cards carry."""
    found = here()
    return found is None or found.whole


def root() -> Path:
    """Where the files of this host are."""
    found = here()
    return WHOLE_ROOT if found and found.whole else Path("/")


def _check(boot: str) -> None:
    """Raises Refused where /proc shows something else than the node's kernel does."""
    own = BOOT.read_text().strip()
    imitated = "lxcfs" in MOUNTS.read_text()
    if own != boot or imitated:
        raise Refused(
            "a pod shows what its node's kernel tells, so that modules can look at the node there",
            example="the runtime class of runc",
            given="a file system that imitates /proc (lxcfs)"
            if imitated
            else f"a pod that was booted by itself ({own}, its node {boot}), as in a sandbox",
            then="let pods of this namespace run without it",
        )
