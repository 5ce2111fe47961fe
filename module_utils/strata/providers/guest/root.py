"""The root filesystem of hosts that are made: a Debian with kernel, systemd and sshd.

    root filesystem of the distribution   (mmdebstrap, as the images of workloads have it)
      + what reads the config drive        (roles/guest_system/files/guest)

Virtual machines have it on a disk (`disk`), bare metal in its memory (`ramdisk`). Nothing is
mounted and no device is needed. What is made is named by all that decides its content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import Refused
from ...host import debian, making, owned
from ...host.making import Aside
from ...identity import digest

RECIPE = 2
FOLDER = "guests"
EPOCH = 1_700_000_000


@dataclass(frozen=True)
class Root(ABC):
    """All that decides the content; `files` has customize.sh, guest/ and ramdisk/."""

    suite: str
    packages: list[str]
    files: Path
    mirror: str

    @abstractmethod
    def form(self) -> list[Any]:
        """What decides the form that it is given."""

    @abstractmethod
    def fill(self, aside: Aside, root: Path, made: Path) -> None:
        """Make the files of `made` from a root filesystem. Raises Refused."""

    @cached_property
    def key(self) -> str:
        contents = {
            str(path.relative_to(self.files)): path.read_text()
            for path in sorted(self.files.rglob("*"))
            if path.is_file()
        }
        asked = [RECIPE, self.suite, sorted(self.packages), self.mirror, *self.form()]
        return digest([*asked, contents])[:12]

    def path(self, cache: Path) -> Path:
        """The folder of its files."""
        return cache / FOLDER / self.key

    def make(self, cache: Path) -> bool:
        """Make it unless it is there; whether it was made. Raises Refused."""
        owned.Folder(cache, "cache").claim()
        path = self.path(cache)
        with making.making(path, "make the system of hosts") as aside:
            if path.exists():
                return False
            made = aside.folder / "made"
            made.mkdir()
            self.fill(aside, self._unpacked(aside), made)
            aside.place(made)
        return True

    def _unpacked(self, aside: Aside) -> Path:
        archive, root = aside.folder / "root.tar", aside.folder / "root"
        debian.bootstrap(
            aside.run,
            self.suite,
            self.packages,
            archive,
            f"--customize-hook={self.files / 'customize.sh'}",
            sources=[self.mirror] if self.mirror else [],
            SOURCE_DATE_EPOCH=str(EPOCH),
        )
        root.mkdir()
        aside.run(["tar", "-xpf", str(archive), "--numeric-owner", "-C", str(root)])
        return root


def only(root: Path, pattern: str) -> Path:
    """The one file of that kind in /boot. Raises Refused."""
    found = sorted((root / "boot").glob(pattern))
    if len(found) != 1:
        raise Refused(
            "the packages of a host hold one kernel with its initial file system",
            example="linux-image-cloud-amd64, initramfs-tools",
            given=f"{[path.name for path in found]}, looking for {pattern}",
            then="name one package of a kernel in the provider's settings, and no further one",
        )
    return found[0]
