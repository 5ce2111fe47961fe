"""Everything of Strata's on a host: found, removed, and looked for again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from ..runtimes import leftovers
from ..runtimes.docker.store import REPOSITORY
from . import cgroup, lease, owned

CONTAINER_LABEL = "strata.trial"


def found(state: owned.Folder) -> dict[str, list[str]]:
    """What is there, by kind: containers, images, control groups, folders, leases."""
    client = _docker()
    containers, images = [], []
    if client is not None:
        with contextlib.closing(client):
            labelled = {"label": CONTAINER_LABEL}
            containers = [c.name for c in client.containers.list(all=True, filters=labelled)]
            images = [tag for image in client.images.list(name=REPOSITORY) for tag in image.tags]
    return {
        "containers": containers,
        "images": images,
        "control groups": [group.name for group in cgroup.existing()],
        "folders": state.found(),
        "leases": [str(path) for path in _leases()],
    }


def remove(state: owned.Folder) -> list[str]:
    """Remove all of it; what could not be removed, and why.

    The Docker engine and the distribution's packages stay. Raises Refused, before anything is
    removed, when the state folder is not Strata's.
    """
    state.is_ours()
    leftovers()
    cgroup.remove_all()
    client = _docker()
    if client is not None:
        with contextlib.closing(client):
            for image in client.images.list(name=REPOSITORY):
                client.images.remove(image.id, force=True)
    for path in _leases():
        owned.remove(path)
    with contextlib.suppress(OSError):  # not there, or something else is in it
        lease.folder().rmdir()
    return state.remove()


def _leases() -> list[Path]:
    """Leases, locks and uses. Without root somebody else may have taken their folder's name."""
    folder = lease.folder()
    if not folder.is_dir() or folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return []
    return sorted(folder.iterdir())


def _docker() -> Any:
    """A client of the engine, or None where there is none to ask."""
    try:
        import docker  # noqa: PLC0415 - hosts without the runtime do not have it
    except ImportError:
        return None
    try:
        return docker.from_env()
    except docker.errors.DockerException:
        return None
