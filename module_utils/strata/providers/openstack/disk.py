"""The disk of a virtual machine: a Debian with kernel, boot loader, systemd and sshd.

    root filesystem of the distribution   (mmdebstrap, as the images of workloads have it)
      + what a guest is told by its cloud   (roles/openstack/files)
      = a file system ext4, filled as it is made
      + one of FAT with the kernel, and syslinux, which a BIOS starts
      = a disk of two partitions

Nothing is mounted and no device is needed. It is named by all that decides its content.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import Refused
from ...host import debian, making, owned
from ...host.making import Aside
from ...identity import digest

RECIPE = 1
FOLDER, DISK = "guests", "disk.qcow2"
EPOCH = 1_700_000_000
# One number for every such disk: what is equal in content is equal in bytes.
ROOT_ID = "5f7a7a61-0000-4000-8000-000000000001"
SECTOR, MIB = 512, 2**20
BOOT_MIB = 128
MBR = Path("/usr/lib/syslinux/mbr/mbr.bin")
TABLE = f"label: dos\nlabel-id: 0x53545241\n2048,{BOOT_MIB}M,c,*\n,,L\n"
LOADER = """SERIAL 0 115200
DEFAULT linux
LABEL linux
  KERNEL vmlinuz
  INITRD initrd.img
  APPEND root=UUID={root} rw console=tty0 console=ttyS0 net.ifnames=0
"""


@dataclass(frozen=True)
class Disk:
    """All that decides the content; `files` has customize.sh and guest/, `size` is in GiB."""

    suite: str
    packages: list[str]
    files: Path
    size: int
    mirror: str = ""

    @cached_property
    def key(self) -> str:
        contents = {
            str(path.relative_to(self.files)): path.read_text()
            for path in sorted(self.files.rglob("*"))
            if path.is_file()
        }
        asked = [RECIPE, self.suite, sorted(self.packages), self.size, self.mirror, LOADER, TABLE]
        return digest([*asked, contents])[:12]

    def path(self, cache: Path) -> Path:
        return cache / FOLDER / self.key / DISK

    def make(self, cache: Path) -> bool:
        """Make it unless it is there; whether it was made. Raises Refused."""
        owned.Folder(cache, "cache").claim()
        path = self.path(cache)
        with making.making(path.parent, "make the disk of virtual machines") as aside:
            if path.exists():
                return False
            root = self._root(aside)
            boot = self._boot(aside, root)
            self._join(aside, boot, self._ext4(aside, root))
            made = aside.folder / "made"
            made.mkdir()
            (aside.folder / DISK).rename(made / DISK)
            aside.place(made)
        return True

    def _root(self, aside: Aside) -> Path:
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

    def _boot(self, aside: Aside, root: Path) -> Path:
        """The file system that the boot loader reads."""
        boot, loader = aside.folder / "boot.img", aside.folder / "syslinux.cfg"
        loader.write_text(LOADER.format(root=ROOT_ID))
        _sparse(boot, BOOT_MIB * MIB)
        aside.run(["mkfs.vfat", "--invariant", "-n", "BOOT", str(boot)])
        parts = {"vmlinuz": _only(root, "vmlinuz-*"), "initrd.img": _only(root, "initrd.img-*")}
        for name, source in {**parts, "syslinux.cfg": loader}.items():
            aside.run(["mcopy", "-i", str(boot), str(source), f"::{name}"])
        aside.run(["syslinux", "--install", str(boot)])
        return boot

    def _ext4(self, aside: Aside, root: Path) -> Path:
        image = aside.folder / "root.img"
        fixed = f"hash_seed={ROOT_ID},lazy_itable_init=0,lazy_journal_init=0"
        _sparse(image, self.size * 2**30 - (BOOT_MIB + 2) * MIB)
        command = ["mke2fs", "-q", "-t", "ext4", "-m", "0", "-U", ROOT_ID, "-E", fixed]
        aside.run([*command, "-d", str(root), str(image)], SOURCE_DATE_EPOCH=str(EPOCH))
        return image

    def _join(self, aside: Aside, boot: Path, root: Path) -> None:
        raw, table = aside.folder / "disk.raw", aside.folder / "table"
        table.write_text(TABLE)
        _sparse(raw, self.size * 2**30)
        aside.run(["sh", "-c", 'exec sfdisk -q "$1" <"$2"', "sh", str(raw), str(table)])
        for source, at in ((MBR, 0), (boot, MIB), (root, (BOOT_MIB + 1) * MIB)):
            places = [f"if={source}", f"of={raw}", f"seek={at}", "oflag=seek_bytes"]
            aside.run(["dd", *places, "bs=1M", "conv=notrunc,sparse", "status=none"])
        disk = str(aside.folder / DISK)
        aside.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), disk])


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _only(root: Path, pattern: str) -> Path:
    found = sorted((root / "boot").glob(pattern))
    if len(found) != 1:
        raise Refused(
            "the packages of a virtual machine hold one kernel with its initial file system",
            example="linux-image-cloud-amd64, initramfs-tools",
            given=f"{[path.name for path in found]}, looking for {pattern}",
            then="set openstack_packages",
        )
    return found[0]
