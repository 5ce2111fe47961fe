"""Who uses what runs share on a machine: an image, its archive, a dataset.

It is named by its content and kept while a run uses it. What no run uses goes when another
takes its place, or the disk would fill. A use is a small file that names the thing and the
process of ansible-playbook; it ends with that process, or, where that is on another machine,
with the process's lease of this host.
"""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

from . import files, lease
from .identity import short

Holder = dict[str, Any]


def note(things: list[str], holder: Holder, at: Path | None = None) -> None:
    """Say that the run of `holder` uses these; each is named as no other on this machine."""
    folder = _folder(at)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for thing in things:
        path = folder / f"{short([thing, holder])}.json"
        if not path.exists():
            files.write_json(path, {"thing": thing, "holder": holder})


def living(at: Path | None = None) -> set[str]:
    """What living runs use."""
    return {entry["thing"] for _, entry in _entries(at) if _lives(entry["holder"], at)}


def forget_dead(at: Path | None = None) -> None:
    """Remove the uses of runs that have ended."""
    for path, entry in _entries(at):
        if not _lives(entry["holder"], at):
            path.unlink(missing_ok=True)


def _entries(at: Path | None) -> list[tuple[Path, dict[str, Any]]]:
    found = []
    for path in sorted(_folder(at).glob("*.json")):
        with contextlib.suppress(FileNotFoundError):
            found.append((path, json.loads(path.read_text())))
    return found


def _lives(holder: Holder, at: Path | None) -> bool:
    if holder["host"] == socket.gethostname():
        return not lease.dead(holder)
    return (lease.current(at) or {}).get("holder") == holder


def _folder(at: Path | None) -> Path:
    return (at or lease.folder()) / "uses"
