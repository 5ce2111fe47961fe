"""What has happened in a campaign: a journal on disk, and a lock that one process holds."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strata import files
from strata.errors import Refused
from strata.host import lease

from schema import documents as schema

# After one of these a run is not started again.
FINAL = ("done", "failed", "refused", "out of time")


class Journal:
    """`state.jsonl` of a campaign, appended and synced; read anew each time it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._lock = folder, threading.Lock()

    @property
    def path(self) -> Path:
        return self.folder / "state.jsonl"

    def event(self, name: str, **more: Any) -> None:
        line = {"event": name, "wall": datetime.now(UTC).isoformat(), "at": time.time(), **more}
        with self._lock:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.append_line(self.path, json.dumps(line))

    def events(self) -> list[dict[str, Any]]:
        """All whole events; a line that a crash cut, or that is none, is passed over."""
        lines = self.path.read_text(errors="replace").split("\n") if self.path.is_file() else []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(line)
                if _is_event(event):
                    found.append(event)
        return found

    def state(self, run: str) -> str:
        """The last known state of a run."""
        states = [e["state"] for e in self.events() if e.get("run") == run and "state" in e]
        return str(states[-1]) if states else "waiting"

    def spent(self, run: str) -> float:
        """Seconds in which the run was under way; after a crash, until its process's last beat."""
        spent, begun = 0.0, None
        for event in self.events():
            own = event.get("run") == run and "state" in event
            if begun is not None and (own or event["event"] == "started"):
                until = event["at"] if own else event.get("alive") or begun
                spent, begun = spent + max(0.0, until - begun), None
            if own and event["state"] == "running":
                begun = event["at"]
        if begun is not None:
            until = time.time() if self.process() else self._alive() or begun
            spent += max(0.0, until - begun)
        return spent

    def at_end_was_called(self) -> bool:
        """Whether the command at the end has been called, and nothing happened since."""
        called = False
        for event in self.events():
            called = event["event"] == "at_end" or (called and event["event"] != "run")
        return called

    def process(self) -> dict[str, Any] | None:
        """The process that drives the campaign now, or None."""
        try:
            found = json.loads(schema.text_of(self.folder / "process.json"))
        except (FileNotFoundError, ValueError, RecursionError):
            # It is replaced as a whole, so what is none was never written by a campaign.
            return None
        return found if _is_process(found) and not lease.dead(found) else None

    def beat(self) -> None:
        """Leave a sign of life, from which a crash is dated."""
        with contextlib.suppress(OSError):
            os.utime(self.folder / "process.json")

    def _alive(self) -> float | None:
        """When the process that drove it was alive for certain; None after an end in order."""
        try:
            return (self.folder / "process.json").stat().st_mtime
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def held(self) -> Iterator[float | None]:
        """Drive the campaign: nobody else may meanwhile. Raises Refused.

        Gives the last beat of a process that crashed, or None.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    "another process drives this campaign",
                    given=f"process {(self.process() or {}).get('pid')}",
                    then="look at it with `python -m campaign status`, or end it with `stop`",
                ) from None
            alive, pid = self._alive(), os.getpid()
            me = {"host": socket.gethostname(), "pid": pid, "start": lease.start_time(pid)}
            files.write_json(self.folder / "process.json", me)
            try:
                yield alive
            finally:
                (self.folder / "process.json").unlink(missing_ok=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _is_event(event: Any) -> bool:
    """What every reader of the journal relies on."""
    return (
        isinstance(event, dict)
        and isinstance(event.get("event"), str)
        and _is_number(event.get("at"))
        and _is_number(event.get("alive") or 0)
        and isinstance(event.get("state", ""), str)
        and isinstance(event.get("why", ""), str)
    )


def _is_process(found: Any) -> bool:
    """Not a number below 2: a signal to one of those is one to many processes."""
    return (
        isinstance(found, dict)
        and isinstance(found.get("host"), str)
        and all(type(found.get(key)) is int for key in ("pid", "start"))
        and found["pid"] > 1
    )
