"""What Strata has on a host beside its runtimes: found, and removed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from . import lease, owned


def found(state: owned.Folder) -> dict[str, list[str]]:
    """What is there, by kind: folders and leases."""
    return {"folders": state.found(), "leases": [str(path) for path in _leases()]}


def remove(state: owned.Folder) -> list[str]:
    """Remove all of it; what could not be removed, and why. Raises Refused as `Folder` does."""
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
