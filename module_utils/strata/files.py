"""Files that are whole or not there: write aside, sync, rename, sync the folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(path: Path, data: bytes) -> None:
    """Replace `path` atomically; after return the bytes are on the disk."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON for people: indented, finite numbers only."""
    write(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def append_line(path: Path, line: str) -> None:
    """Append one line and sync it. A line is whole or the last, cut by a crash.

    A cut line that a crash left is closed first, so that it stays alone in its line.
    """
    with path.open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
