"""Beside a program in its pod: tells of it whom it is attached to, where its node cannot be seen.

Its text is all that is started, by the Python of the workload's image: it needs the standard
library alone. It says nothing before it is told to begin, since nobody may listen yet; what it
notes until then has the time of when it happened. Each line is an object in JSON.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import select
import sys
import tarfile
import time
from pathlib import Path

OUT, LOGS = "/out", "/logs"
# What is listened to: `begin`, `collect`, `signal NUMBER`.
LOOK_S, SAMPLE_S = 0.02, 0.5
# After its program has ended, and after nothing has begun.
LONELY_S = 900.0
CHUNK = 48 * 1024
# Of a control group as a container has it, in version 2 and version 1.
FILES = (
    *("cpu.stat", "memory.current", "memory.peak", "memory.events"),
    *("cpuacct/cpuacct.usage", "cpu/cpu.stat", "memory/memory.usage_in_bytes"),
    *("memory/memory.max_usage_in_bytes", "memory/memory.oom_control"),
)
MEASURED = b'"phase": "measured"'


def others() -> list[int]:
    """The processes of the pod but for the first, which is the cluster's, and this one."""
    found = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in found if pid not in (1, os.getpid())]


def process() -> int | None:
    """The first process of the other container: all that it starts have a parent here."""
    for pid in others():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if fields[1] == "0" and fields[0] not in "ZX":
                return pid
    return None


class Program:
    """One that runs, or has ended."""

    def __init__(self, pid: int) -> None:
        self.pid, self.began, self.ended = pid, time.monotonic(), 0.0
        self.end = os.pidfd_open(pid)
        self._files: dict[str, int] = {}

    @property
    def seen(self) -> bool:
        """Whether its control group can be read, or it has ended before that."""
        return bool(self._files or self.ended)

    def look(self) -> None:
        """See its control group: whoever becomes the program shows nothing until then.

        The files are held open, since they can be read for a moment after the process has ended,
        and no longer be found.
        """
        for name in FILES:
            with contextlib.suppress(OSError):
                path = f"/proc/{self.pid}/root/sys/fs/cgroup/{name}"
                self._files[name.rpartition("/")[2]] = os.open(path, os.O_RDONLY)

    def over(self) -> bool:
        if not self.ended and select.select([self.end], [], [], 0)[0]:
            self.ended = time.monotonic()
        return bool(self.ended)

    def used(self) -> dict[str, str]:
        """What its control group counts; nothing once that has gone."""
        try:
            return {name: os.pread(at, 8192, 0).decode() for name, at in self._files.items()}
        except OSError:
            return {}


def signal(number: int) -> None:
    """To all of them."""
    for pid in others():
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def collect() -> None:
    """What the program has left so far, as an archive in pieces."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for folder in (OUT, LOGS):
            archive.add(folder, folder.strip("/"))
    whole = packed.getvalue()
    for at in range(0, len(whole), CHUNK):
        say(part=base64.b64encode(whole[at : at + CHUNK]).decode())
    say(collected=True)


def has_measured() -> bool:
    try:
        return MEASURED in Path(OUT, "steps.jsonl").read_bytes()
    except OSError:
        return False


class Companion:
    """What was told to whom, and what was heard."""

    def __init__(self) -> None:
        self.program: Program | None = None
        self.begun = False
        self._told: set[str] = set()
        self._sampled, self._heard = 0.0, b""

    def wait(self) -> None:
        """Until something is heard, the program has ended, or it is time to look."""
        ends = [self.program.end] if self.program and not self.program.ended else []
        seen = self.program is not None and self.program.seen
        ready, _, _ = select.select([0, *ends], [], [], SAMPLE_S if seen else LOOK_S)
        if 0 in ready:
            text = os.read(0, 4096)
            if not text:
                time.sleep(LOOK_S)  # nobody can say anything any more
            self._heard += text
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            self._do(*line.decode().split())

    def _do(self, word: str, number: str = "0") -> None:
        if word == "begin":
            self.begun = True
        elif word == "collect":
            collect()
        elif word == "signal":
            signal(int(number))

    def look(self) -> None:
        if self.program is None:
            pid = process()
            with contextlib.suppress(OSError):
                self.program = Program(pid) if pid else None
        if self.program and not self.program.seen:
            self.program.look()
        if self.program and self.begun:
            self._tell(self.program, self.program.over())

    def _tell(self, program: Program, over: bool) -> None:
        if self._first("began"):
            say(began=program.began)
        if "ended" in self._told:
            return
        if over or time.monotonic() - self._sampled >= SAMPLE_S:
            self._sampled = time.monotonic()
            say(used=program.used())
            if has_measured() and self._first("measured"):
                collect()
        if over and self._first("ended"):
            collect()
            say(ended=program.ended)

    def _first(self, what: str) -> bool:
        """Whether it was not told before."""
        new = what not in self._told
        self._told.add(what)
        return new


def main() -> None:
    here, last = Companion(), time.monotonic()
    while time.monotonic() - last < LONELY_S:
        here.wait()
        here.look()
        if here.program and not here.program.ended:
            last = time.monotonic()


if __name__ == "__main__":
    main()
