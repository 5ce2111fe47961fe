"""Datasets: a folder of files that a workload reads, a manifest of checksums, proof of both."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import files
from ..errors import Refused
from ..host import making, owned, uses
from ..identity import digest, short

# Class folders of JPEGs; TFRecord shards, the IDX files of MNIST.
IN_CLASSES = re.compile(r".*\.jpe?g", re.DOTALL | re.IGNORECASE)
AT_TOP = re.compile(r".*(\.tfrecord|-.{5}-of-.{5}|-ubyte|-ubyte\.gz)", re.DOTALL)
# Besides the folder of a dataset: what was asked and found, that it was proven, the names alone.
BESIDES = (".json", ".verified", ".files")
# What others must be allowed: their bits of a mode are those that os.access takes, too.
EVERYBODY_READS, EVERYBODY_ENTERS = os.R_OK, os.R_OK | os.X_OK


@dataclass(frozen=True)
class Manifest:
    """What a dataset must be. `files` maps a path to `[size, sha256]`; digest is over `files`."""

    name: str
    origin: str  # given or generated
    files: dict[str, list[Any]]
    digest: str
    asked: dict[str, Any] | None = None  # of a generated one: the workload and all its options

    @property
    def bytes(self) -> int:
        return sum(int(size) for size, _ in self.files.values())


def key(name: str, asked: dict[str, Any] | None) -> str:
    """Names the folder of a dataset: another one for each thing that is asked to be generated."""
    return name if asked is None else f"{name}-{short(asked)}"


def listing(folder: Path) -> list[Path]:
    """The files of a dataset, sorted. Raises Refused when there are none, or one is none to read.

    Nothing is opened: a pipe would never end.
    """
    return list(_stats_of(folder))


def _stats_of(folder: Path) -> dict[Path, os.stat_result]:
    try:
        found = {Path(entry.path): _stat(entry) for entry in _entries(folder)}
    except FileNotFoundError:
        found = {}
    except OSError as error:
        raise Refused(
            "a dataset's folders can be entered and read",
            given=f"{error.filename}: {error.strerror}",
            then="repair it, or take it out of the dataset",
        ) from error
    if not found:
        raise Refused(
            "a dataset is a folder of class folders with JPEGs, of TFRecord shards or of IDX files",
            example="/data/flowers/tulip/0001.jpg or /data/imagenet/train-00000-of-01024",
            given=f"{folder}{'' if folder.is_dir() else ' (there is no such folder)'}",
            then="give the folder with -e strata_dataset=FOLDER, or let one be generated",
        )
    return dict(sorted(found.items()))


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """All that has the name of a dataset's file."""
    _check(str(folder), folder.stat(), EVERYBODY_ENTERS)
    for entry in _within(folder, folder):
        if AT_TOP.fullmatch(entry.name):
            yield entry
        elif entry.is_dir():
            _check(entry.path, entry.stat(), EVERYBODY_ENTERS)
            within = _within(Path(entry.path), folder)
            yield from (file for file in within if IN_CLASSES.fullmatch(file.name))


def _within(folder: Path, dataset: Path) -> Iterator[os.DirEntry[str]]:
    """What is in a folder. Raises Refused at a link that leads nowhere for a trial."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink() and not _stays_in(Path(entry.path), dataset):
                raise Refused(
                    "a link in a dataset is relative and stays in it: trials see the dataset alone",
                    example="0002.jpg -> ../rose/0001.jpg",
                    given=f"{entry.path} -> {Path(entry.path).readlink()}",
                    then="put the file itself there",
                )
            yield entry


def _stays_in(link: Path, dataset: Path) -> bool:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # nothing is there; it leads back to itself
        return False
    return not link.readlink().is_absolute() and target.is_relative_to(dataset.resolve())


def _stat(entry: os.DirEntry[str]) -> os.stat_result:
    """Of what a link points to. Raises Refused unless it is a file that a trial can read."""
    try:
        status = entry.stat()
    except OSError as error:
        raise _unfit(entry.path, str(error.strerror)) from error
    if not stat.S_ISREG(status.st_mode):
        raise _unfit(entry.path, "a folder, a pipe, a socket or a device")
    _check(entry.path, status, EVERYBODY_READS)
    return status


def _check(path: str, status: os.stat_result, needed: int) -> None:
    """Raises Refused unless trials can use it: root starts them as another account."""
    by_mode = status.st_mode & needed == needed
    if not (by_mode if os.geteuid() == 0 else os.access(path, needed)):
        raise _unfit(path, f"mode {stat.S_IMODE(status.st_mode):o}, owner {status.st_uid}")


def _unfit(path: str, how: str) -> Refused:
    return Refused(
        "a dataset consists of files that every account can read, or of links to such files",
        example="chmod -R a+rX FOLDER",
        given=f"{path}: {how}",
        then="repair it, or take it out of the dataset",
    )


def take(name: str, folder: Path, origin: str, asked: dict[str, Any] | None = None) -> Manifest:
    """Read every file of `folder` and describe it. Raises Refused."""
    stats = _stats_of(folder)
    with ThreadPoolExecutor() as pool:
        sums = list(pool.map(_sha256, stats))
    entries: dict[str, list[Any]] = {
        str(path.relative_to(folder)): [status.st_size, checksum]
        for (path, status), checksum in zip(stats.items(), sums, strict=True)
    }
    return Manifest(name, origin, entries, digest(entries), asked)


def read(path: Path) -> Manifest | None:
    """The manifest kept at `path`, or None. Raises Refused when it is not whole."""
    if not path.exists():
        return None
    try:
        found = Manifest(**json.loads(path.read_text()))
    except (TypeError, ValueError):
        found = None
    if found is None or found.digest != digest(found.files):
        raise Refused(
            "a dataset's manifest cannot be read, or was changed",
            given=str(path),
            then="remove it only if you trust the dataset: it will be described anew",
        )
    return found


def check_asked(found: Manifest, asked: dict[str, Any] | None, path: Path) -> None:
    """Raises Refused when something else was asked for the dataset of the manifest at `path`."""
    if asked is not None and found.asked != asked:
        raise Refused(
            f"dataset {found.name!r} is not what was asked to be generated",
            given=f"{path}: {found.asked}; asked: {asked}",
            then="remove the manifest and the folder beside it: it will be generated anew",
        )


def keep(manifest: Manifest, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, asdict(manifest))


def keep_names(manifest: Manifest, path: Path) -> None:
    """The names of all files, each ended by a NUL: what of a folder is carried to hosts."""
    files.write(path, b"".join(os.fsencode(name) + b"\0" for name in manifest.files))


def superfluous(name: str, folder: Path) -> list[Path]:
    """What once was generated, or carried to this host, under this name, and no run uses.

    `folder` is the one that took its place. Also what was left half made beside it.
    """
    if not folder.parent.is_dir():
        return []
    named = re.compile(rf"{re.escape(name)}-[0-9a-f]{{12}}")
    others = [path for path in sorted(folder.parent.iterdir()) if named.fullmatch(path.name)]
    unused = {str(path) for path in others} - uses.living() - {str(folder)}
    return [Path(path) for path in sorted(unused)] + making.abandoned(folder.parent)


def remove(folder: Path) -> None:
    """Remove a dataset's folder and what is kept beside it, unless it is being made."""
    if making.clear(folder):
        for ending in BESIDES:
            owned.remove(folder.with_name(folder.name + ending))


def verify(manifest: Manifest, folder: Path, receipt: Path, remember: bool = True) -> None:
    """Prove that `folder` holds what the manifest says. Raises Refused naming the first difference.

    Contents are read only when a size or a time has changed since `receipt` was written.
    """
    stats = _stats(folder)
    found = digest([manifest.digest, stats])
    if receipt.exists() and receipt.read_text() == found:
        return
    _compare(manifest, folder, stats)
    if not remember:
        return
    receipt.parent.mkdir(parents=True, exist_ok=True)
    files.write(receipt, found.encode())


def _compare(manifest: Manifest, folder: Path, stats: dict[str, list[int]]) -> None:
    for name, (size, checksum) in manifest.files.items():
        if name not in stats:
            raise _differs(manifest, folder, name, "it is missing")
        if stats[name][0] != size:
            raise _differs(manifest, folder, name, f"{stats[name][0]} bytes, not {size}")
        if _sha256(folder / name) != checksum:
            raise _differs(manifest, folder, name, "its checksum differs")
    for name in sorted(set(stats) - set(manifest.files)):
        raise _differs(manifest, folder, name, "it is not in the manifest")


def _differs(manifest: Manifest, folder: Path, name: str, how: str) -> Refused:
    remedy = (
        "remove the folder: it will be generated anew"
        if manifest.origin == "generated"
        else "restore the file, or remove the manifest if the change is meant"
    )
    return Refused(
        f"dataset {manifest.name!r} is not what its manifest says",
        given=f"{folder / name}: {how}",
        then=remedy,
    )


def _stats(folder: Path) -> dict[str, list[int]]:
    return {
        str(path.relative_to(folder)): [s.st_size, s.st_mtime_ns, s.st_ctime_ns]
        for path, s in _stats_of(folder).items()
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
