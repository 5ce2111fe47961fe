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
        """Seconds in which the run was under way; a crash ends a stretch at its last event."""
        spent, begun, last = 0.0, None, 0.0
        for event in self.events():
            if event.get("run") != run:
                continue
            if event.get("state") == "running":
                spent += last - begun if begun is not None else 0.0
                begun = event["at"]
            elif begun is not None and "state" in event:
                spent, begun = spent + event["at"] - begun, None
            last = event["at"]
        if begun is not None:
            spent += (time.time() if self.process() else last) - begun
        return spent

    def process(self) -> dict[str, Any] | None:
        """The process that drives the campaign now, or None."""
        path = self.folder / "process.json"
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return None if lease.dead(found) else found

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Drive the campaign: nobody else may meanwhile. Raises Refused."""
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
            pid = os.getpid()
            me = {"host": socket.gethostname(), "pid": pid, "start": lease.start_time(pid)}
            files.write_json(self.folder / "process.json", me)
            try:
                yield
            finally:
                (self.folder / "process.json").unlink()
