"""The workload image: one root filesystem, one digest, the same bytes on every platform.

The image is a tar in one canonical spelling (sorted, numeric owners, one time stamp). The
SHA-256 of that tar is the image's digest, and it is also what Docker calls the layer's
diffID when the tar is imported: the engine itself proves that it holds the same bytes. An
unpacked root filesystem is proven by writing it as a canonical tar again; as long as no
size, mode or time in it has changed since, that is not done a second time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

from .. import files
from ..errors import Refused
from ..host import making, processes
from ..identity import digest

# The time stamp of every file of an image: what is in it decides its digest, not when it was made.
EPOCH = 1_700_000_000
# Beside an unpacked image: its digest, and the stats with which it was proven.
KNOWN = "known.json"
# Of an unpacked image: its family and the begin of its digest. Earlier versions had one family,
# and named none.
NAME = re.compile(r"((?P<family>[a-z][a-z0-9_]*)-)?[0-9a-f]{12}")
COPIED_AT_ONCE = 2**20  # bytes
# Folders that every image has, as places to mount on.
MOUNT_POINTS = ("in", "out", "data", "tmp", "proc", "sys", "dev", "run")


class Sink(Protocol):
    def write(self, data: bytes, /) -> int: ...


class Onward:
    """Writes on to an optional file, which need not know its position: what a tar is written to.

    Not as a stream of tarfile's own ("w|"): that copies what it has buffered for each piece of a
    file, which took more than half of the time.
    """

    def __init__(self, file: Sink | None) -> None:
        self._file, self._position = file, 0

    def write(self, data: bytes, /) -> int:
        if self._file is not None:
            self._file.write(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position


class HashingSink(Onward):
    """Hashes what passes through it."""

    def __init__(self, file: Sink | None = None) -> None:
        super().__init__(file)
        self._hash = hashlib.sha256()

    def write(self, data: bytes, /) -> int:
        self._hash.update(data)
        return super().write(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All entries below `root`, by path from it, a folder before what is in it; sorted."""
    pending = [("", str(root))]
    while pending:
        prefix, folder = pending.pop()
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        for entry in ordered:
            yield f"{prefix}{entry.name}", entry
        pending += [
            (f"{prefix}{entry.name}/", entry.path)
            for entry in reversed(ordered)
            if entry.is_dir(follow_symlinks=False)
        ]


def pack(root: Path, out: Path | None) -> str:
    """Write the folder as one canonical tar; its digest.

    Sockets and devices are left out: no image needs them, and an unprivileged one cannot have them.
    With `out` None nothing is written, only the digest is taken.
    """
    if out is None:
        sink = HashingSink()
        _write_tar(root, sink)
        return sink.hexdigest()
    aside = out.with_suffix(".part")
    with aside.open("wb") as file:
        sink = HashingSink(file)
        _write_tar(root, sink)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(out)
    return sink.hexdigest()


def _write_tar(root: Path, sink: HashingSink) -> None:
    out = cast(Any, sink)  # writing needs `write` and `tell` alone, which its type does not say
    # The pieces are larger than tarfile's own 16 KiB.
    with tarfile.TarFile(
        fileobj=out, mode="w", format=tarfile.PAX_FORMAT, copybufsize=COPIED_AT_ONCE
    ) as tar:
        for name, entry in walk(root):
            _add(tar, name, entry)


def _add(tar: tarfile.TarFile, name: str, entry: os.DirEntry[str]) -> None:
    status = entry.stat(follow_symlinks=False)
    member = tarfile.TarInfo(name)
    member.mode, member.mtime = stat.S_IMODE(status.st_mode), EPOCH
    member.uid, member.gid = status.st_uid, status.st_gid
    if entry.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, str(Path(entry.path).readlink())
        tar.addfile(member)
    elif entry.is_dir():
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
    elif entry.is_file():
        member.size = status.st_size
        with Path(entry.path).open("rb") as file:
            tar.addfile(member, file)


def stat_digest(root: Path) -> str:
    """A cheap stand-in for the content: every path with size, mode, change and modification time.

    About 0.3 s for 30,000 files. Any write to a file moves its change time, which nothing
    short of a raw disk write can set back.
    """
    seen = hashlib.sha256()
    for name, entry in walk(root):
        s = entry.stat(follow_symlinks=False)
        # A folder's size is the file system's affair.
        size = 0 if stat.S_ISDIR(s.st_mode) else s.st_size
        seen.update(f"{name}\0{size} {s.st_mode} {s.st_mtime_ns} {s.st_ctime_ns}\n".encode())
    return seen.hexdigest()


class Held(Protocol):
    """An image as a runtime holds it. Without a family it stands for none."""

    @property
    def family(self) -> str: ...
    @property
    def content(self) -> str: ...


class Rootfs:
    """An unpacked image on a host: `FOLDER/rootfs`, with what is known of it beside it.

    No other account can enter the folder: programs in the image belong to root and have its rights.
    """

    def __init__(self, images: Path, family: str, content: str) -> None:
        self.family, self.content, self._images = family, content, images
        self.folder = images / name(family, content)
        self.root = self.folder / "rootfs"

    def holds(self) -> bool:
        """True when the files are those of the digest: by their stats, or else by reading all."""
        known = self._known()
        if known.get("digest") != self.content or _is_open(self.folder):
            return False
        if known["stat"] == stat_digest(self.root):
            return True
        if self._read() != self.content:
            return False
        self._remember(self.folder)
        return True

    def _read(self) -> str:
        """The digest of the files that are there."""
        return pack(self.root, None)

    def load(self, tar: Path) -> None:
        """Replace what is there by the content of `tar`. Raises Refused if it is another image."""
        before = self._known()
        with making.making(self.folder, f"unpack image {self.content[:12]}") as aside:
            if self._known() != before and self.holds():
                return  # while we waited for it, another unpacked it
            root = aside.folder / "rootfs"
            root.mkdir()
            root.chmod(0o755)
            aside.run(["tar", "-xpf", str(tar), "--numeric-owner", "-C", str(root)])
            if pack(root, None) != self.content:
                raise Refused(
                    f"the archive does not unpack to image {self.content[:12]}",
                    given=str(tar),
                    then="remove it and run again: it will be built, or copied, anew",
                )
            self._remember(aside.folder)
            aside.place()

    def _known(self) -> dict[str, str]:
        try:
            return dict(json.loads((self.folder / KNOWN).read_text()))
        except (FileNotFoundError, ValueError):
            return {}

    def _remember(self, folder: Path) -> None:
        known = {"digest": self.content, "stat": stat_digest(folder / "rootfs")}
        files.write_json(folder / KNOWN, known)

    def uses(self) -> list[str]:
        """What a run that uses this image needs to be kept."""
        return [str(self.folder)]

    def others(self) -> list[str]:
        """Folders of the family's other images, and what was left half made.

        Without a family, those of all.
        """
        if not self._images.is_dir():
            return []
        found = sorted(path.name for path in self._images.iterdir())
        others = [str(self._images / name) for name in found if is_other(name, self)]
        return others + [str(path) for path in making.abandoned(self._images)]

    def remove(self, folder: str) -> None:
        making.clear(Path(folder))


def name(family: str, content: str) -> str:
    """What the image of a family with that digest is called, by every runtime that holds it."""
    return f"{family}-{content[:12]}"


def is_other(called: str, held: Held) -> bool:
    """Whether that is the name of another image of the family; without a family, of any."""
    match = NAME.fullmatch(called)
    known = match and (not held.family or match["family"] in (None, held.family))
    return bool(known) and called != name(held.family, held.content)


def _is_open(folder: Path) -> bool:
    """Whether other accounts can enter it."""
    return bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)


def carried(state_dir: Path) -> list[Path]:
    """Archives in which images came to this host. One that is held needs none.

    Also what a killed rsync left of one, `.NAME.tar.XXXXXX`, unless it still writes.
    """
    images = state_dir / "images"
    left = [path for path in images.glob(".*.tar.*") if not processes.has_open(path)]
    return sorted([*images.glob("*.tar"), *left])


def held(family: str, kind: str, content: str, state_dir: Path, environment: str) -> dict[str, str]:
    """The image on this host as runtimes take it; a virtual environment is where it was made."""
    unpacked = Rootfs(state_dir / "images", family, content).root
    names = {"family": family, "kind": kind, "digest": content}
    return {**names, "rootfs": environment if kind == "venv" else str(unpacked)}


def sources(root: Path) -> list[Path]:
    """What of a folder of workloads is in an image, and in its key: the Python files."""
    return sorted(root.rglob("*.py"))


def tree_digest(root: Path) -> str:
    """SHA-256 over paths and contents of the sources below `root`."""
    return digest(
        {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sources(root)
        }
    )


def copy_sources(root: Path, target: Path) -> None:
    """Copy the sources below `root`, and nothing else that lies there."""
    for path in sources(root):
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
