"""A program in a pod of a cluster that exists, watched through the companion beside it."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import websocket

from ...host import cgroup
from ...host.counters import Counters
from ..base import Spec
from .cluster import GONE, Cluster

AGAIN_S = 0.1
TURN_S = 1.0  # for which what it says is waited for at a time
COLLECT_S = 15.0
# Of a frame: what it carries, and by its first byte whose it is.
TEXTS, STDOUT = (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT), b"\x01"
TARGETS = {"out": "out", "logs": "logs"}  # folders of the pod, and of the trial


class Beside:
    """What `pods.OnNode` is on a node of ours, by what the companion says."""

    def __init__(self, spec: Spec, cluster: Cluster) -> None:
        self.cpus: set[int] | None = None  # its companion does not see them
        self.began = self.at = 0.0
        self.kills: int | None = None
        self._spool, self._cluster = spec.spool, cluster
        self._group = spec.spool / "group"
        self._talk: Any = None
        self._last = Counters()
        self._parts: list[str] = []
        self._collected, self._closed = threading.Event(), threading.Event()

    @property
    def whole(self) -> bool:
        """Whether its end was told, before which all that it left is sent."""
        return bool(self.at)

    def follow(self, pod: str, uid: str, over: Callable[[], bool]) -> None:
        """Hears the companion from the moment in which it can be attached to."""
        del uid
        while not over() and not self._closed.is_set():
            try:
                self._talk = self._cluster.attach(pod)
                self._talk.write_stdin("begin\n")
                break
            except GONE:  # it is not there yet
                self._closed.wait(AGAIN_S)
        for line in self._lines() if self._talk else ():
            self._hear(json.loads(line))
            if self.whole or self._closed.is_set():
                return

    def _lines(self) -> Iterator[bytes]:
        """What it says, until the connection ends.

        Read from the connection itself: the client's own way of waiting for it misses what has
        come already and was not decrypted yet.
        """
        heard = b""
        self._talk.sock.settimeout(TURN_S)
        while not self._closed.is_set():
            try:
                kind, frame = self._talk.sock.recv_data_frame(True)
            except websocket.WebSocketTimeoutException:
                continue
            except GONE:
                return
            if kind == websocket.ABNF.OPCODE_CLOSE:
                return
            if kind in TEXTS and frame.data[:1] == STDOUT:
                heard += frame.data[1:]
                *lines, heard = heard.split(b"\n")
                yield from lines

    def _hear(self, said: dict[str, Any]) -> None:
        if "began" in said:
            self.began = float(said["began"])
        elif "used" in said:
            self._note(said["used"])
        elif "part" in said:
            self._parts.append(said["part"])
        elif "collected" in said:
            self._unpack(b"".join(map(base64.b64decode, self._parts)))
            self._parts = []
            self._collected.set()
        elif "ended" in said:
            self.at = float(said["ended"])

    def _note(self, files: dict[str, str]) -> None:
        """The files of its control group, read as those of any other."""
        if not files:
            # It ended before it was seen, or has gone with its last figures.
            self._last = Counters()
            return
        self._group.mkdir(exist_ok=True)
        for name, text in files.items():
            (self._group / Path(name).name).write_text(text)
        folders = dict.fromkeys(cgroup.V1_CONTROLLERS, self._group)
        self._last = cgroup.counters(folders)
        self.kills = cgroup.memory_kills(folders)

    def _unpack(self, packed: bytes) -> None:
        """The program wrote it: plain files alone, and nowhere else."""
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            for member in archive.getmembers():
                path = Path(member.name)
                target = TARGETS.get(path.parts[0]) if path.parts else None
                if target is None or ".." in path.parts or not member.isfile():
                    continue
                file = archive.extractfile(member)
                to = self._spool / target / path.relative_to(path.parts[0])
                to.parent.mkdir(parents=True, exist_ok=True)
                if file:
                    to.write_bytes(file.read())

    def usage(self) -> Counters:
        return self._last

    def signal(self, number: int) -> None:
        self._tell(f"signal {number}")

    def logs(self) -> tuple[bytes, bytes]:
        """Of one that has not ended, too, with all that it has written."""
        if not self.whole and self._talk:
            self._collected.clear()
            if self._tell("collect"):
                self._collected.wait(COLLECT_S)
        found = (self._spool / "logs" / name for name in ("stdout", "stderr"))
        out, err = (path.read_bytes() if path.is_file() else b"" for path in found)
        return out, err

    def _tell(self, what: str) -> bool:
        if self._talk and self._talk.is_open():
            with contextlib.suppress(*GONE):
                self._talk.write_stdin(f"{what}\n")
                return True
        return False

    def close(self) -> None:
        self._closed.set()
        if self._talk:
            with contextlib.suppress(*GONE):
                self._talk.close()


def wait_for(whole: Callable[[], bool], seconds: float) -> None:
    """Until something holds, for at most so long."""
    deadline = time.monotonic() + seconds
    while not whole() and time.monotonic() < deadline:
        time.sleep(AGAIN_S / 10)
