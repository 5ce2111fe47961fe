"""What has happened in a campaign: a journal on disk, and a lock that one process holds."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strata import files, lease
from strata.errors import Refused

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
        """All whole events; a line that a crash cut is passed over."""
        found = []
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
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

    def told(self) -> bool:
        """Whether the command at the end has been called, and nothing happened since."""
        called = False
        for event in self.events():
            called = event["event"] == "at_end" or (called and event["event"] != "run")
        return called

    def process(self) -> dict[str, Any] | None:
        """The process that drives the campaign now, or None."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "process.json").read_text())
        except FileNotFoundError:
            return None
        return None if lease.dead(found) else found

    def beat(self) -> None:
        """Leave a sign of life, from which a crash is dated."""
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
                (self.folder / "process.json").unlink()
