"""Runtime `kubernetes`: a program is a Job of the cluster, bound to the host by the node's name.

The client is imported only where something is asked of the cluster: a host that lacks it has no
Job, and the import takes as long as a small deploy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...host import agent
from ..base import Runtime, Spec, Unavailable
from . import node
from .images import ContainerdImage
from .kept import PulledImage
from .node import DAEMONS, FIELDS, facts, fingerprint

__all__ = [
    "DAEMONS",
    "FIELDS",
    "PINS",
    "facts",
    "fingerprint",
    "found",
    "leftovers",
    "make",
    "remove",
    "store",
    "why_not",
]

# The kubelet's CPU manager chooses the CPUs of a pod.
PINS = False


def make(spec: Spec) -> Runtime:
    """The Job for one program."""
    try:
        from .job import Kubernetes  # noqa: PLC0415 - see above
    except ImportError as error:
        return Unavailable(f"the modules' Python on this host lacks the cluster's client: {error}")
    return Kubernetes(spec)


def store(state_dir: Path, family: str, content: str) -> ContainerdImage | PulledImage:
    """The image in the node's engine, which has a folder of its own."""
    del state_dir
    return (PulledImage if agent.here() else ContainerdImage)(family, content)


def why_not(facts: dict[str, Any], image_kind: str) -> str:
    """Why the host that told these facts can be no node, or ''."""
    if image_kind == "venv":
        return "the workload image is a virtual environment, as Strata runs without root"
    return str(facts["why_not"])


def leftovers() -> list[str]:
    """Remove the Jobs of killed trials on this node, and name them."""
    if not agent.here() and not node.CONFIG.exists():
        return []
    try:
        from .cluster import leftovers as removed  # noqa: PLC0415 - see above
    except ImportError:
        return []
    return removed()


def found() -> dict[str, list[str]]:
    """Jobs of trials on this node, and workload images in its engine."""
    return {"images of the node": ContainerdImage("", "").others()}


def remove() -> None:
    """Remove all of that. The cluster itself is its role's."""
    leftovers()
    images = ContainerdImage("", "")
    for reference in images.others():
        images.remove(reference)
