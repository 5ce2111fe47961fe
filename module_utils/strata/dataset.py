"""Datasets: a folder of files that a workload reads, a manifest of checksums, proof of both."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import account, files, runtimes
from .errors import Refused
from .identity import digest

GENERATE_SECONDS = 3600.0
# Class folders of JPEGs, TFRecord shards, the IDX files of MNIST.
PATTERNS = (
    *("*/*.jpg", "*/*.jpeg", "*/*.JPEG", "*.tfrecord", "*-?????-of-?????"),
    *("*-ubyte", "*-ubyte.gz"),
)


@dataclass(frozen=True)
class Manifest:
    """What a dataset must be. `files` maps a path to `[size, sha256]`; digest is over `files`."""

    name: str
    origin: str  # given or generated
    files: dict[str, list[Any]]
    digest: str

    @property
    def bytes(self) -> int:
        return sum(int(size) for size, _ in self.files.values())


def listing(folder: Path) -> list[Path]:
    """The files of a dataset, sorted. Raises Refused when there are none."""
    found = sorted({path for pattern in PATTERNS for path in folder.glob(pattern)})
    if not found:
        raise Refused(
            "a dataset is a folder of class folders with JPEGs, of TFRecord shards or of IDX files",
            example="/data/flowers/tulip/0001.jpg or /data/imagenet/train-00000-of-01024",
            given=f"{folder}{'' if folder.is_dir() else ' (there is no such folder)'}",
            then="give the folder with -e strata_dataset=FOLDER, or let one be generated",
        )
    return found


def take(name: str, folder: Path, origin: str) -> Manifest:
    """Read every file of `folder` and describe it."""
    paths = listing(folder)
    with ThreadPoolExecutor() as pool:
        sums = list(pool.map(_sha256, paths))
    entries: dict[str, list[Any]] = {
        str(path.relative_to(folder)): [path.stat().st_size, checksum]
        for path, checksum in zip(paths, sums, strict=True)
    }
    return Manifest(name, origin, entries, digest(entries))


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


def keep(manifest: Manifest, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, asdict(manifest))


def generate(image: dict[str, str], asked: dict[str, Any], folder: Path) -> None:
    """Let a workload make the dataset at `folder`: `asked` names it, and its options.

    Raises Refused.
    """
    options = dict(asked)
    workload = options.pop("workload", "make_images")
    spool = folder.parent / f".{folder.name}.part"
    shutil.rmtree(spool, ignore_errors=True)
    for name in ("in", "out"):
        (spool / name).mkdir(parents=True)
    number = account.own(set())
    os.chown(spool / "out", number, -1)
    (spool / "in" / "config.json").write_text(
        json.dumps({"options": options, "data_dir": None, "cpus": None})
    )
    spec = runtimes.Spec(
        *(workload, "dataset", workload, spool, image),
        account=number,
        environment=runtimes.ENVIRONMENT,
    )
    runtime = runtimes.make("native", spec)
    try:
        runtime.prepare()
        runtime.launch()
        ended = runtime.wait(GENERATE_SECONDS)
        if ended is None or ended.code != 0:
            said = runtime.logs()[1].strip()[-500:]
            raise Refused("the dataset could not be generated", given=str(asked), then=said)
        (spool / "out" / "dataset").rename(folder)
    finally:
        runtime.remove()
        shutil.rmtree(spool, ignore_errors=True)


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
        for path in listing(folder)
        for s in [path.stat()]
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
