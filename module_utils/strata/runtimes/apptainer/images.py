"""The workload image as a SIF: one file, with the root filesystem in it as a SquashFS."""

from __future__ import annotations

import platform
import struct
from pathlib import Path

from ...errors import Refused
from ...host import making, owned
from ...image import rootfs
from ...image.rootfs import Rootfs
from . import installation

NAME = "image.sif"
# How `apptainer sif add` is told of a partition with the system's root filesystem.
PARTITION = {"datatype": 4, "parttype": 2, "partfs": 1, "groupid": 1}
MACHINES = {"x86_64": 2, "aarch64": 4, "ppc64le": 6, "s390x": 11, "riscv64": 12}
# The file itself (https://github.com/apptainer/sif/blob/main/pkg/sif/sif.go): launcher, magic,
# version, machine, id, two dates; descriptors that are free, all, where they begin, their bytes;
# where data begin, their bytes.
MAGIC, MAGIC_AT = b"SIF_MAGIC\0", 32
HEADER = struct.Struct("<32s10s3s3s16s2q6q")
# A descriptor begins with: type, whether it is used, number, group, link, offset, bytes.
DESCRIPTOR, DESCRIPTOR_BYTES = struct.Struct("<i?IIIqq"), 585
DATA_PARTITION = 0x4004


class Sif(Rootfs):
    """The image on a host: `FOLDER/rootfs/image.sif`, with what is known of it beside it.

    What a SIF holds is proven by unpacking it: its own bytes have dates and a random number. As
    long as size and times of the file are those with which it was proven, it is not done again.
    """

    @property
    def path(self) -> Path:
        return self.root / NAME

    def load(self, tar: Path) -> None:
        """Make the SIF from the image's archive. Raises Refused if it then is another image."""
        with making.making(self.folder, f"make the SIF of image {self.content[:12]}") as aside:
            unpacked, squashed = aside.folder / "unpacked", aside.folder / "squashed"
            made = aside.folder / "rootfs" / NAME
            for folder in (unpacked, made.parent):
                folder.mkdir()
                folder.chmod(0o755)
            aside.run(["tar", "-xpf", str(tar), "--numeric-owner", "-C", str(unpacked)])
            aside.run(["mksquashfs", str(unpacked), str(squashed), "-noappend", "-no-progress"])
            owned.remove(unpacked)
            aside.run(_apptainer("sif", "new", str(made)))
            aside.run(_apptainer("sif", "add", *_described(), str(made), str(squashed)))
            squashed.unlink()
            made.chmod(0o644)
            if _content(aside, made) != self.content:
                raise Refused(
                    f"the archive does not become image {self.content[:12]}",
                    given=str(tar),
                    then="remove it and run again: it will be built, or copied, anew",
                )
            self._remember(aside.folder)
            aside.place()

    def _read(self) -> str:
        beside = self.folder.with_name(f"{self.folder.name}-read")
        with making.making(beside, f"read the SIF of image {self.content[:12]}") as aside:
            return _content(aside, self.path)


def of(image: dict[str, str]) -> Path:
    """The SIF of an image that a trial is given, which names where `native` has it unpacked."""
    state_dir = Path(image["rootfs"]).parent.parent.parent
    return Sif(state_dir / "apptainer", image["family"], image["digest"]).path


def offset(sif: Path) -> int:
    """Where its root filesystem begins, in bytes. Raises Refused where the file has none."""
    with sif.open("rb") as file:
        header = file.read(HEADER.size)
        if len(header) == HEADER.size and header[MAGIC_AT:].startswith(MAGIC):
            *_, total, begin, _, _, _ = HEADER.unpack(header)
            for number in range(total):
                file.seek(begin + number * DESCRIPTOR_BYTES)
                said = file.read(DESCRIPTOR.size)
                kind, used, _, _, _, at, _ = DESCRIPTOR.unpack(said)
                if used and kind == DATA_PARTITION:
                    return int(at)
    raise Refused("a SIF has a partition with a root filesystem", given=f"{sif}, which has none")


def _content(aside: making.Aside, sif: Path) -> str:
    """The digest of the root filesystem in a SIF."""
    folder = aside.folder / "read"
    begin = ["-offset", str(offset(sif))]
    aside.run(["unsquashfs", "-no-progress", *begin, "-dest", str(folder), str(sif)])
    try:
        return rootfs.pack(folder, None)
    finally:
        owned.remove(folder)


def _apptainer(*arguments: str) -> list[str]:
    program = installation.program()
    if program is None:
        raise Refused("a SIF is made by Apptainer", given="it is not installed on this host")
    return [str(program), *arguments]


def _described() -> list[str]:
    said = {**PARTITION, "partarch": MACHINES[platform.machine()]}
    return [f"--{name}={value}" for name, value in said.items()]
