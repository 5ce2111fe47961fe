"""The note of a host's network from before a setting: what the host must be like again after it.

It lies in Strata's state folder, so that a kill in the middle of a switch does not lose it, and
goes when the state is seen to be the same again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import files
from ..errors import Refused
from . import network_state, owned
from .facts import read_text

FOLDER, FILE = "network", "before.json"
BOOT = "/proc/sys/kernel/random/boot_id"
MOST_LINES = 60  # of a message; what is left over of a cluster may be hundreds


@dataclass(frozen=True)
class Note:
    """Whose setting is on this host, and what the network was before: `state`, by kind."""

    run: str
    setting: str
    role: str
    hosts: dict[str, str]  # of the setting, with their addresses, as its role was given them
    boot: str = field(default_factory=lambda: read_text(BOOT))
    state: network_state.State = field(default_factory=dict)

    def whose(self) -> str:
        return f"run {self.run}, setting {self.setting}"


def read(state_dir: Path) -> Note | None:
    """The note that is there, or None. Raises Refused where it cannot be read."""
    path = _path(state_dir)
    try:
        return Note(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise Refused(
            "the note of the network from before a setting can be read",
            given=f"{path}: {error}",
            then="see to it that nothing of the setting is left, and remove the file",
        ) from error


def begin(state_dir: Path, run: str, setting: str, role: str, hosts: dict[str, str]) -> Note:
    """Note the state of the network, before anything is made. Returns the note that then holds.

    A second time for the same run and setting the first one stands: what is there by then may be
    the setting's. Raises Refused where another run's setting may be there.
    """
    there = _of(state_dir, run, setting)
    if there:
        return there
    owned.Folder(state_dir, "state").claim()
    note = Note(run, setting, role, hosts, state=network_state.capture())
    path = _path(state_dir)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    files.write_json(path, asdict(note))
    return note


def compare(state_dir: Path, run: str, setting: str) -> list[str]:
    """What differs from the note, a line each; the note goes where nothing does.

    Without a note nothing was made either, since it comes first. Raises Refused where the note is
    another run's.
    """
    note = _of(state_dir, run, setting)
    if note is None:
        return []
    found = network_state.differences(note.state, network_state.capture())
    if not found:
        forget(state_dir)
    return found


def forget(state_dir: Path) -> None:
    """Remove the note, and its folder with it."""
    owned.remove(_path(state_dir).parent)


def message(state_dir: Path, setting: str, found: list[str]) -> str:
    """What is said of differences: each of them, and what to do."""
    note = read(state_dir)
    again = note is not None and note.boot != read_text(BOOT)
    restarted = ["the host was started anew since then"] if again else []
    more = [f"and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
    return "\n".join(
        [
            f"after the setting {setting} the network is not as it was before it; "
            "'+' was not there then, '-' was:",
            *found[:MOST_LINES],
            *more,
            *restarted,
            f"next: undo what is listed; where it is as it should be, remove {_path(state_dir)}",
        ]
    )


def _of(state_dir: Path, run: str, setting: str) -> Note | None:
    """The note, where it is of this run and setting. Raises Refused where it is of another."""
    note = read(state_dir)
    if note is not None and (note.run, note.setting) != (run, setting):
        raise Refused(
            "a host has one setting at a time, and that is left before another is made",
            given=f"{_path(state_dir)}: {note.whose()}, asked for: run {run}, setting {setting}",
            then=f"go on with that run (-e strata_run={note.run}), or playbooks/teardown.yml",
        )
    return note


def _path(state_dir: Path) -> Path:
    return state_dir / FOLDER / FILE


def document(note: Note | None) -> dict[str, Any]:
    """What a module says of a note; its lines stay on the host."""
    return {} if note is None else {k: v for k, v in asdict(note).items() if k != "state"}
