"""What bare metal runs from its memory: a kernel, and the root filesystem of hosts that are made.

The kernel unpacks the archive, and /init of it (roles/guest_system/files/ramdisk) moves all to a
file system in memory that has a limit and can be left, as containers ask for.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...host.making import Aside
from .root import EPOCH, Root, only

KERNEL, RAMDISK = "vmlinuz", "root.cpio.zst"
PACK = """
cd "$1"
find . -path ./boot -prune -o -print0 | LC_ALL=C sort --zero-terminated |
  cpio --null --create --format=newc --reproducible --quiet | zstd -q -9 >"$2"
"""


@dataclass(frozen=True)
class Ramdisk(Root):
    """It has no more to it."""

    def form(self) -> list[Any]:
        return ["ramdisk", PACK]

    def fill(self, aside: Aside, root: Path, made: Path) -> None:
        shutil.copy(only(root, "vmlinuz-*"), made / KERNEL)
        init = root / "init"
        shutil.copy(self.files / "ramdisk/init", init)
        init.chmod(0o755)
        for path in (init, root):
            os.utime(path, (EPOCH, EPOCH))
        shell = ["bash", "-euo", "pipefail", "-c", PACK, "bash"]
        aside.run([*shell, str(root), str(made / RAMDISK)])
