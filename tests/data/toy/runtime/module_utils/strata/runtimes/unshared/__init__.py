"""Runtime `unshared`: the program runs in the image's root filesystem, in namespaces of its own.

The tools of util-linux make them. Mounts, host name and IPC are always the program's own. A network
that has a name of its own here is a network namespace of that name, which the program enters. Needs
root, and the image unpacked. Data, GPUs and scratch space are left out: no workload of the tests
asks for them here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from ... import networks
from ...fields import Field
from ...host import cgroup, processes
from ...host.counters import Counters
from ...image.rootfs import Rootfs
from ..base import Ended, Runtime, Spec, StartError, program, tail

TOOLS = ("unshare", "nsenter", "setpriv")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FIELDS: dict[str, Field] = {"unshared.util_linux": Field("util-linux")}
DAEMONS: tuple[str, ...] = ()

# Runs in the namespaces: joins the control group, mounts, and becomes the program.
SETUP = """
set -e
root=$1 spool=$2; shift 2
for file in $GROUPS_TO_JOIN; do echo $$ > "$file"; done
mount --bind "$root" "$root"
mount -o remount,bind,ro,nosuid "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/tmp"
for part in in out; do mount --bind "$spool/$part" "$root/$part"; done
exec setpriv --no-new-privs chroot --userspec="$ACCOUNT" "$root" /usr/bin/env -i "$@" < /dev/null
"""


class Unshared:
    """One program in namespaces of its own."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._group = cgroup.Group(spec.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._logs = [spec.spool / name for name in ("stdout", "stderr")]

    def prepare(self) -> None:
        given = self._spec.resources
        try:
            self._group.create(given.cpus, given.memory, given.numa, given.quota)
        except OSError as error:
            raise StartError(f"the control group of the trial: {error}") from error

    def launch(self) -> None:
        spec = self._spec
        called = networks.get(spec.network).called
        enter = ["nsenter", f"--net=/run/netns/{called}"] if called else []
        script = ["/bin/sh", "-c", SETUP, "sh"]
        given = [spec.image["rootfs"], str(spec.spool)]
        variables = [f"{name}={value}" for name, value in spec.environment.items()]
        environment = {
            "PATH": PATH,
            "GROUPS_TO_JOIN": " ".join(self._group.procs_files()),
            "ACCOUNT": f"{spec.account}:{spec.account}",
        }
        unshare = ["unshare", "--mount", "--uts", "--ipc", "--propagation", "private"]
        command = [*enter, *unshare, *script, *given, *variables]
        with self._logs[0].open("wb") as out, self._logs[1].open("wb") as err:
            self._process = subprocess.Popen(
                [*command, *program(spec)],
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )
        processes.note(self._process.pid, spec.spool / processes.FILE)

    def wait(self, seconds: float) -> Ended | None:
        assert self._process  # launch came first
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return Ended(code, bool(cgroup.memory_kills(self._group.paths())))

    def usage(self) -> Counters:
        return cgroup.counters(self._group.paths())

    def phases(self) -> dict[str, float]:
        return {}

    def signal(self, number: int) -> None:
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def logs(self) -> tuple[str, str]:
        out, err = (tail(path.read_bytes()) if path.exists() else "" for path in self._logs)
        return out, err

    def remove(self) -> None:
        self.signal(signal.SIGKILL)
        self._group.remove()
        if self._process:
            self._process.wait()


def make(spec: Spec) -> Runtime:
    """The process for one program."""
    return Unshared(spec)


def store(state_dir: Path, family: str, content: str) -> Rootfs:
    """The image unpacked below the state folder, where `native` has it, too."""
    return Rootfs(state_dir / "images", family, content)


def facts() -> dict[str, Any]:
    """Which of its tools are not there."""
    return {"missing": [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]}


def why_not(facts: dict[str, Any], image_kind: str) -> str:
    """Its role can install the tools, but nothing can be unshared without root."""
    del facts
    return "without root there are no namespaces to make" if image_kind == "venv" else ""


def fingerprint() -> dict[str, Any]:
    """The version of its tools, as `unshare from util-linux 2.38.1` says it."""
    said = subprocess.run(["unshare", "--version"], capture_output=True, text=True, check=False)
    return {"unshared.util_linux": said.stdout.split()[-1]} if said.stdout else {}


def found() -> dict[str, list[str]]:
    """Nothing but control groups, which a host has as such."""
    return {}


def remove() -> None:
    """Nothing beside them."""


def leftovers() -> list[str]:
    """Nothing beside them."""
    return []
