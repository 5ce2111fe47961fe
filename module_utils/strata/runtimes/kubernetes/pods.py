"""A pod as its node has it: its container's first process, control groups and log, read from files.

The cluster tells the same a second later, and by way of another host.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...host import cgroup
from ...host.counters import Counters
from ..base import watched
from .objects import CONTAINER, NAMESPACE

# Of containerd, a folder for each container that runs.
TASKS = Path("/run/containerd/io.containerd.runtime.v2.task/k8s.io")
LOGS = Path("/var/log/pods")
READ_BYTES = 2**20
LOOK_S = 0.05
STREAM = 1  # of a line of a log: time, stream, whether it is whole, text
PARTS = 4


def process(pod: str, tasks: Path = TASKS) -> int | None:
    """The first process of the program's container in a pod of that name; None without one."""
    for folder in tasks.glob("*"):
        try:
            told = json.loads((folder / "config.json").read_text()).get("annotations", {})
            if (
                told.get("io.kubernetes.cri.sandbox-name") == pod
                and told.get("io.kubernetes.cri.sandbox-namespace") == NAMESPACE
                and told.get("io.kubernetes.cri.container-name") == CONTAINER
            ):
                return int((folder / "init.pid").read_text())
        except (OSError, ValueError):
            continue  # it has just come, or goes
    return None


@dataclass(frozen=True)
class Sandbox:
    """A pod with a network of its own, before any of its containers."""

    pod: str
    network: str  # path of its namespace
    made: float  # when, by this host's clock


def sandboxes(namespace: str, tasks: Path = TASKS) -> list[Sandbox]:
    """Those of a namespace of the cluster that are on this host, by the names of their pods."""
    found = []
    for path in tasks.glob("*/config.json"):
        try:
            told, made = json.loads(path.read_text()), path.stat().st_mtime
        except (OSError, ValueError):
            continue  # it has just come, or goes
        noted = told.get("annotations", {})
        spaces = {one["type"]: one.get("path") for one in told["linux"]["namespaces"]}
        if (
            noted.get("io.kubernetes.cri.container-type") == "sandbox"
            and noted.get("io.kubernetes.cri.sandbox-namespace") == namespace
            and spaces.get("network")
        ):
            name = noted["io.kubernetes.cri.sandbox-name"]
            found.append(Sandbox(name, spaces["network"], made))
    return sorted(found, key=lambda one: one.pod)


def groups(pid: int) -> tuple[dict[str, Path], dict[str, Path]]:
    """The control groups of a container, and those of its pod, which hold them; by controller.

    Raises OSError where the process has gone.
    """
    own = cgroup.of_process(pid)
    return own, {name: folder.parent for name, folder in own.items()}


def logs(pod: str, uid: str, at: Path = LOGS) -> tuple[bytes, bytes]:
    """What the program wrote to each of its outputs, as far as the log's end reaches back."""
    path = at / f"{NAMESPACE}_{pod}_{uid}" / CONTAINER / "0.log"
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ_BYTES))
            return parted(file.read())
    except OSError:
        return b"", b""


def parted(text: bytes) -> tuple[bytes, bytes]:
    """Standard output and standard error, of a log as the container runtime interface has it."""
    found = {b"stdout": b"", b"stderr": b""}
    for line in text.splitlines():
        parts = line.split(b" ", PARTS - 1)
        if len(parts) == PARTS and parts[STREAM] in found:
            end = b"\n" if parts[2] == b"F" else b""
            found[parts[STREAM]] += parts[3] + end
    return found[b"stdout"], found[b"stderr"]


class OnNode:
    """A program in a pod, watched from the pod's own node."""

    def __init__(self) -> None:
        self.began = self.at = 0.0  # when its process was seen to be there, and to end
        self.whole = True  # all that it left is here
        self.kills: int | None = None
        self.cpus: set[int] | None = None  # those that it may run on; None until it is there
        self._pod, self._uid = "", ""
        self._own: dict[str, Path] = {}
        self._meter: cgroup.Meter | None = None  # of all containers of the pod
        self._last = Counters()

    def follow(self, pod: str, uid: str, over: Callable[[], bool]) -> None:
        """Finds the first process as soon as it is there, and sees its end when it comes."""
        self._pod, self._uid = pod, uid
        while (pid := process(pod)) is None:
            if over():
                return
            time.sleep(LOOK_S)
        try:
            self._own, whole = groups(pid)
            self.cpus = os.sched_getaffinity(pid)
        except OSError:
            return
        self._meter = cgroup.Meter(whole)
        self.began = time.monotonic()
        with watched(pid) as poll:
            if poll and poll.poll():
                self.at = time.monotonic()
                self.usage()
                self.kills = cgroup.memory_kills(self._own)

    def usage(self) -> Counters:
        """From the files of the pod's control group, which is there as long as the pod."""
        if self._meter:
            now = self._meter.read()
            if now.cpu is not None:
                self._last = now
        return self._last

    def signal(self, number: int) -> None:
        """To every process of the container."""
        if not self._own:
            return
        with contextlib.suppress(OSError):
            for pid in (self._own["memory"] / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), number)

    def logs(self) -> tuple[bytes, bytes]:
        return logs(self._pod, self._uid)

    def close(self) -> None:
        """Nothing is open."""
