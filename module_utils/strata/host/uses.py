"""Who uses what runs share on a machine: an image, its archive, a dataset.

It is named by its content and kept while a run uses it. What no run uses goes when another
takes its place, or the disk would fill. A use is a small file that names the thing and the
process of ansible-playbook; it ends with that process, or, where that is on another machine,
with the process's lease of this host.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from .. import files
from ..identity import short
from . import lease

Holder = dict[str, Any]


def note(things: list[str], holder: Holder) -> None:
    """Say that the run of `holder` uses these; each is named as no other on this machine."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for thing in things:
        path = folder / f"{short([thing, holder])}.json"
        if not path.exists():
            files.write_json(path, {"thing": thing, "holder": holder})


def living() -> set[str]:
    """What living runs use."""
    return {entry["thing"] for _, entry in _entries() if _lives(entry["holder"])}


def forget_dead() -> None:
    """Remove the uses of runs that have ended."""
    for path, entry in _entries():
        if not _lives(entry["holder"]):
            path.unlink(missing_ok=True)


def _entries() -> list[tuple[Path, dict[str, Any]]]:
    found = []
    for path in sorted(_folder().glob("*.json")):
        with contextlib.suppress(FileNotFoundError):
            found.append((path, json.loads(path.read_text())))
    return found


def _lives(holder: Holder) -> bool:
    if lease.is_here(holder):
        return not lease.dead(holder)
    held = lease.current()
    return held is not None and lease.same(held["holder"], holder)


def _folder() -> Path:
    return lease.folder() / "uses"
