"""`native`: the program runs in the image's root filesystem by chroot, and in nothing else.

It shares every namespace of the host but the one for mounts, which holds what a chroot needs
and goes with the process. Mounts are made beforehand, and are no part of the measured time.
Without root there is no chroot: the image is then a virtual environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import storage
from ..fields import Field
from ..host import cgroup, gpu, processes
from ..host.counters import Counters
from ..image.rootfs import Rootfs
from .base import (
    LOG_BYTES,
    SCRATCH,
    Ended,
    Runtime,
    Spec,
    StartError,
    inside,
    open_files,
    program,
    tail,
    watched,
)

READY_SECONDS = 20.0
SETUP_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MILLISECONDS = 1000

# Joins the control group, mounts, says that it is ready, waits for the word, becomes the program.
SETUP = """
set -e
root=$1 spool=$2 data=$3 scratch=$4 storage=$5 libraries=$6 files=$7; shift 7
for file in $GROUPS_TO_JOIN; do echo $$ > "$file"; done
mount --bind "$root" "$root"
mount -o remount,bind,ro,nosuid "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount --bind "$spool/in" "$root/in"
mount -o remount,bind,ro,nosuid "$root/in"
mount --bind "$spool/out" "$root/out"
mount -o remount,bind,nosuid "$root/out"
if [ -n "$data" ]; then
  mount --bind "$data" "$root/data"
  mount -o remount,bind,ro,nosuid "$root/data"
fi
if [ -n "$scratch" ]; then
  mkdir "$root$scratch"
  if [ "$storage" = tmpfs ]; then
    mount -t tmpfs -o "mode=700,uid=${IDS%:*},nosuid,nodev" tmpfs "$root$scratch"
  else
    mount --bind "$spool/scratch" "$root$scratch"
    mount -o remount,bind,nosuid "$root$scratch"
  fi
fi
[ -z "$libraries" ] || mkdir "$root/run/gpu"
for file in $libraries; do
  touch "$root/run/gpu/${file##*/}"
  mount --bind "$file" "$root/run/gpu/${file##*/}"
done
: > "$spool/ready"
read -r _
ulimit -c 0
ulimit -n "$files"
exec setpriv --no-new-privs chroot --userspec="$IDS" "$root" /usr/bin/env -i "$@" < /dev/null
"""


class Native:
    """One program, run natively."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._rooted = spec.image["kind"] != "venv"
        self._group = cgroup.Group(spec.name)
        self._meter: cgroup.Meter | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._kills_before = processes.memory_kills()
        self._setup_cpu = 0.0  # seconds that the set-up took, no part of the program
        self._last = Counters()
        self._logs = [spec.spool / name for name in ("stdout", "stderr")]

    def prepare(self) -> None:
        if not self._rooted:
            self._refuse_what_needs_root()
            return
        spec, given = self._spec, self._spec.resources
        try:
            self._group.create(given.cpus, given.memory, given.numa, given.quota)
        except OSError as error:
            raise StartError(f"the control group of the trial: {error}") from error
        self._meter = cgroup.Meter(self._group.paths())
        groups = " ".join(self._group.procs_files())
        account = f"{spec.account}:{spec.account}"
        environment = {"PATH": SETUP_PATH, "GROUPS_TO_JOIN": groups, "IDS": account}
        unshare = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c"]
        self._start([*unshare, *self._set_up()], stdin=subprocess.PIPE, env=environment)
        self._await_ready()

    def _set_up(self) -> list[str]:
        """The script that becomes the program, and its arguments. Raises StartError."""
        spec = self._spec
        libraries = " ".join(gpu.installed_driver_libraries()) if spec.resources.gpus else ""
        folders = [spec.spool, spec.data or "", SCRATCH if spec.scratch else "", spec.storage]
        arguments = [spec.image["rootfs"], *folders, libraries, open_files()]
        variables = [f"{name}={value}" for name, value in self._environment().items()]
        return [SETUP, "sh", *map(str, arguments), *variables, *program(spec)]

    def _refuse_what_needs_root(self) -> None:
        if self._spec.storage != storage.DISK:
            raise StartError(f"storage: {self._spec.storage} needs root: it has to be mounted")
        for name in ("memory", "numa", "quota"):
            if getattr(self._spec.resources, name) is not None:
                raise StartError(f"{name!r} needs root: no control group can be made without")

    def _start(self, command: list[str], **more: Any) -> None:
        with self._logs[0].open("wb") as out, self._logs[1].open("wb") as err:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=err, start_new_session=True, **more
            )
        processes.note(self._process.pid, self._spec.spool / processes.FILE)

    def _await_ready(self) -> None:
        """Until the mounts are made. Raises StartError with what the set-up said."""
        assert self._process  # noqa: S101 - it has just been started
        deadline = time.monotonic() + READY_SECONDS
        while not (self._spec.spool / "ready").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = _end_of(self._logs[1]).strip()
                raise StartError(f"the root filesystem could not be set up: {said}")
            time.sleep(0.002)

    def _environment(self) -> dict[str, str]:
        gpus = self._spec.resources.gpus or []
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
        libraries = {"LD_LIBRARY_PATH": "/run/gpu"} if gpus and self._rooted else {}
        return {**self._spec.environment, **visible, **libraries}

    def launch(self) -> None:
        if self._rooted:
            assert self._process and self._process.stdin  # noqa: S101 - prepare came first
            self._setup_cpu = cgroup.cpu_seconds(self._group.paths()) or 0.0
            try:
                self._process.stdin.write(b"\n")
                self._process.stdin.close()
            except BrokenPipeError:
                # It ended while it waited: `wait` tells with which status.
                pass
            return
        cpus = self._spec.resources.cpus
        pin = ["taskset", "--cpu-list", cpus] if cpus else []
        where = inside(self._spec)
        environment = {**self._environment(), "PYTHONPATH": where.code}
        command = ["/bin/sh", "-c", 'ulimit -c 0; exec "$@"', "sh", *pin, *program(self._spec)]
        folder = self._spec.spool / "out"
        try:
            self._start(command, stdin=subprocess.DEVNULL, env=environment, cwd=folder)
        except OSError as error:
            raise StartError(str(error)) from error

    def wait(self, seconds: float) -> Ended | None:
        assert self._process  # noqa: S101 - launch came first
        # Once its status has been taken, its number may be another's.
        with watched(None if self._process.returncode is not None else self._process.pid) as poll:
            if poll and not poll.poll(seconds * MILLISECONDS):
                return None
            at = time.monotonic()
            self.usage()  # while /proc still tells: waiting for its status removes it from there
            try:
                code = self._process.wait(0 if poll else seconds)
            except subprocess.TimeoutExpired:
                return None
        if self._last.memory_peak is None:
            self._last = replace(self._last, memory_peak=processes.largest_child())
        kills = cgroup.memory_kills(self._group.paths()) if self._rooted else None
        memory = processes.out_of_memory(code, kills, self._kills_before)
        return Ended(code, memory, at if poll else time.monotonic())

    def usage(self) -> Counters:
        if self._meter:
            used = self._meter.read()
            if used.cpu is not None:
                self._last = replace(used, cpu=max(0.0, used.cpu - self._setup_cpu))
        elif self._process:
            self._last = processes.used(self._process.pid, self._last)
        return self._last

    def phases(self) -> dict[str, float]:
        return {}

    def signal(self, number: int) -> None:
        if self._process and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def logs(self) -> tuple[str, str]:
        out, err = (_end_of(path) for path in self._logs)
        return out, err

    def remove(self) -> None:
        self.signal(signal.SIGKILL)
        if self._rooted:
            self._group.remove()
        if self._process:
            if self._process.stdin:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
            self._process.wait()
            if not self._rooted:
                processes.end_session(self._process.pid)


FIELDS: dict[str, Field] = {}
DAEMONS: tuple[str, ...] = ()


def make(spec: Spec) -> Runtime:
    """The process for one program."""
    return Native(spec)


def store(state_dir: Path, family: str, content: str) -> Rootfs:
    """The image unpacked below the state folder."""
    return Rootfs(state_dir / "images", family, content)


def facts() -> dict[str, Any]:
    """Nothing that preflight does not ask of the host itself."""
    return {}


def why_not(facts: dict[str, Any], image_kind: str) -> str:
    """It can be had on every host."""
    del facts, image_kind
    return ""


def fingerprint() -> dict[str, Any]:
    """Nothing: it is the host."""
    return {}


def found() -> dict[str, list[str]]:
    """The control groups of programs."""
    return {"control groups": [group.name for group in cgroup.existing()]}


def remove() -> None:
    """End and remove them, and the group that holds them."""
    leftovers()
    cgroup.remove_all()


def leftovers() -> list[str]:
    """End and remove the groups of trials that nobody watches any more.

    A dataset that is being generated has a group, too: it is its maker's as long as that lives.
    """
    if os.geteuid() != 0:
        return []
    found = [group for group in cgroup.existing() if not processes.owner_lives(group.name)]
    for group in found:
        group.remove()
    return [f"control group {group.name}" for group in found]


def _end_of(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_BYTES))
        return tail(file.read())
