"""Everything of Strata's on a host: found, removed, and looked for again."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

from . import cgroup, lease
from .image import REPOSITORY
from .runtimes import leftovers

CONTAINER_LABEL = "strata.trial"


def found(state_dir: Path) -> dict[str, list[str]]:
    """What is there, by kind: containers, images, control groups, mounts, folders, leases."""
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
        "mounts": [path for path in _mounts() if path.startswith(f"{state_dir}/")],
        "folders": [str(path) for path in (state_dir, lease.folder()) if _is_left(path)],
    }


def remove(state_dir: Path) -> None:
    """Remove all of it. The Docker engine and the distribution's packages stay."""
    leftovers()
    cgroup.remove_all()
    client = _docker()
    if client is not None:
        with contextlib.closing(client):
            for image in client.images.list(name=REPOSITORY):
                client.images.remove(image.id, force=True)
    for folder in (state_dir, lease.folder()):
        _remove(folder)


def _mounts() -> list[str]:
    """Where file systems are mounted. Path.is_mount misses a folder bound on its own disk."""
    return [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]


def _is_left(folder: Path) -> bool:
    """Whether a folder is there; a disk of its own stays mounted, and must be empty."""
    if str(folder) not in _mounts():
        return folder.exists()
    return any(path.name != "lost+found" for path in folder.iterdir())


def _remove(folder: Path) -> None:
    if str(folder) not in _mounts():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


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
