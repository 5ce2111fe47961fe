"""The disk of a virtual machine: the root filesystem of hosts that are made, for a BIOS.

a file system ext4 of it, filled as it is made
  + one of FAT with the kernel, and syslinux
  = a disk of two partitions
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import Refused
from ...host.making import Aside
from .root import EPOCH, Root, only

DISK = "disk.qcow2"
# One number for every such disk: what is equal in content is equal in bytes.
ROOT_ID = "5f7a7a61-0000-4000-8000-000000000001"
MIB = 2**20
BOOT_MIB = 128
MBR = Path("/usr/lib/syslinux/mbr/mbr.bin")
TABLE = f"label: dos\nlabel-id: 0x53545241\n2048,{BOOT_MIB}M,c,*\n,,L\n"
LOADER = """SERIAL 0 115200
DEFAULT linux
LABEL linux
  KERNEL vmlinuz
  INITRD initrd.img
  APPEND root=UUID={root} rw console=tty0 console=ttyS0 net.ifnames=0 {arguments}
"""


@dataclass(frozen=True)
class Disk(Root):
    """`size` is in GiB; `arguments` are more words for its kernel, in one line, or Refused."""

    size: int
    arguments: str

    def __post_init__(self) -> None:
        if not self.arguments.isprintable():
            raise Refused(
                "the arguments of a kernel are words of one line",
                example="hugepages=512 isolcpus=2-3",
                given=repr(self.arguments),
                then="name them in one line in the provider's settings",
            )

    def form(self) -> list[Any]:
        return [self.size, LOADER, self.arguments, TABLE]

    def fill(self, aside: Aside, root: Path, made: Path) -> None:
        boot = _boot(aside, root, self.arguments)
        self._join(aside, boot, self._ext4(aside, root), made / DISK)

    def _ext4(self, aside: Aside, root: Path) -> Path:
        image = aside.folder / "root.img"
        fixed = f"hash_seed={ROOT_ID},lazy_itable_init=0,lazy_journal_init=0"
        _sparse(image, self.size * 2**30 - (BOOT_MIB + 2) * MIB)
        command = ["mke2fs", "-q", "-t", "ext4", "-m", "0", "-U", ROOT_ID, "-E", fixed]
        aside.run([*command, "-d", str(root), str(image)], SOURCE_DATE_EPOCH=str(EPOCH))
        return image

    def _join(self, aside: Aside, boot: Path, root: Path, disk: Path) -> None:
        raw, table = aside.folder / "disk.raw", aside.folder / "table"
        table.write_text(TABLE)
        _sparse(raw, self.size * 2**30)
        aside.run(["sh", "-c", 'exec sfdisk -q "$1" <"$2"', "sh", str(raw), str(table)])
        for source, at in ((MBR, 0), (boot, MIB), (root, (BOOT_MIB + 1) * MIB)):
            places = [f"if={source}", f"of={raw}", f"seek={at}", "oflag=seek_bytes"]
            aside.run(["dd", *places, "bs=1M", "conv=notrunc,sparse", "status=none"])
        aside.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(disk)])


def _boot(aside: Aside, root: Path, arguments: str) -> Path:
    """The file system that the boot loader reads."""
    boot, loader = aside.folder / "boot.img", aside.folder / "syslinux.cfg"
    loader.write_text(LOADER.format(root=ROOT_ID, arguments=arguments))
    _sparse(boot, BOOT_MIB * MIB)
    aside.run(["mkfs.vfat", "--invariant", "-n", "BOOT", str(boot)])
    parts = {"vmlinuz": only(root, "vmlinuz-*"), "initrd.img": only(root, "initrd.img-*")}
    for name, source in {**parts, "syslinux.cfg": loader}.items():
        aside.run(["mcopy", "-i", str(boot), str(source), f"::{name}"])
    aside.run(["syslinux", "--install", str(boot)])
    return boot


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)
