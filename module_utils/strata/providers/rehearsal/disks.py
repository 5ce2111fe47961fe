"""The disks of a rehearsal lab's nodes: a sparse file each, with a file system of its own in it.

A node can fill its own disk and no other, and the disk ends as one file, however many are in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ...errors import Refused

# linux/fs/ext4/ext4.h: _IOR('X', 125, __u32), and one of its flags.
EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
# The kernel lets go of a container's mounts after the container; on a busy machine, seconds.
BUSY_S = 60.0


@dataclass(frozen=True)
class Disk:
    """A file system of `size` bytes in the file `image`, mounted at `folder`."""

    image: Path
    folder: Path
    size: int

    def state(self) -> str:
        """`mounted`, `made` or `absent`."""
        if self.folder.is_mount():
            return "mounted"
        return "made" if self.image.exists() else "absent"

    def make(self, parts: list[str]) -> None:
        """Make and mount it, with a folder for each part. Raises Refused."""
        if not self.image.exists():
            self._format()
        if self.image.stat().st_size != self.size:
            raise Refused(
                "the size of a node's disk cannot be changed",
                given=f"{self.size} bytes; {self.image} has {self.image.stat().st_size}",
                then="take the lab away first: -e state=absent",
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.folder.is_mount():
            self._mount()
        for part in parts:
            (self.folder / part).mkdir(mode=0o711, exist_ok=True)

    def _format(self) -> None:
        """Aside, and renamed: a disk is whole or not there."""
        self.image.parent.mkdir(parents=True, exist_ok=True)
        aside = self.image.with_suffix(".part")
        aside.unlink(missing_ok=True)
        with aside.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(self.size)
        lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
        run(["mkfs.ext4", "-q", "-m", "0", "-E", lazy, str(aside)])
        aside.rename(self.image)

    def _mount(self) -> None:
        # Past the page cache: what a node reads is cached once, as its own.
        command = ["losetup", "--find", "--show", "--direct-io=on", str(self.image)]
        device = run(command).strip()
        try:
            run(["mount", "-t", "ext4", "-o", "noatime", device, str(self.folder)])
        finally:
            # The device goes with its last user, which is now the mount.
            run(["losetup", "--detach", device])

    def remove(self) -> None:
        """Unmount and remove it. Raises Refused while something uses it."""
        if self.folder.is_mount():
            self._shut_down()
            self._unmount()
        with contextlib.suppress(FileNotFoundError):
            self.folder.rmdir()
        self.image.unlink(missing_ok=True)
        self.image.with_suffix(".part").unlink(missing_ok=True)

    def _unmount(self) -> None:
        """Wait while it is busy with nothing that can be named. Raises Refused with who uses it."""
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                run(["umount", str(self.folder)])
            except Refused as refused:
                users = _users(self.folder)
                if users or time.monotonic() > deadline:
                    by = f"{refused.given}; used by: {', '.join(users) or 'no process'}"
                    raise Refused(refused.rule, given=by) from refused
                time.sleep(0.1)
            else:
                return

    def _shut_down(self) -> None:
        """Let the file system forget what it has not written yet: gigabytes, after a deploy."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # then unmounting writes it
                fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(folder)


def _users(folder: Path) -> list[str]:
    """Processes that have a file or a folder of `folder` open, or are in it: `PID name`.

    Not our own: a program that one thread starts has what another has open until it runs.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if f"\nPPid:\t{os.getpid()}\n" in (process / "status").read_text():
                continue
            held = [process / "cwd", process / "root", *(process / "fd").iterdir()]
            if any(_is_below(link, folder) for link in held):
                found.append(f"{process.name} {(process / 'comm').read_text().strip()}")
    return found


def _is_below(link: Path, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return link.readlink().is_relative_to(folder)
    return False


def devices(folder: Path) -> list[str]:
    """Loop devices over files below `folder`, with those that were removed."""
    listed = json.loads(run(["losetup", "--list", "--json", "--output", "NAME,BACK-FILE"]) or "{}")
    found = [(item["name"], item["back-file"] or "") for item in listed.get("loopdevices", [])]
    return [f"{name} {file}" for name, file in found if file.startswith(f"{folder}/")]


def run(command: list[str]) -> str:
    """What it prints. Raises Refused when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"{' '.join(command)} failed", given=done.stderr.strip())
    return done.stdout
