"""Builds the image of a family a second time, from nothing, and lists what of it is not the same.

    .venv/bin/python -m tools.build_twice FAMILY [--cache FOLDER]

The first build is the one that the cache has. On one day the two have one digest; on another, the
distribution has repaired packages, and what that changes is listed: packages by version, and each
path that differs in content, mode, owner or kind. Exit 0: bit-identical; 1: not.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

from strata.errors import Refused
from strata.host import built
from strata.host.owned import Folder
from strata.image import rootfs
from strata.image.build import Builder

from controller import families

REPO = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("family")
    parser.add_argument("--cache", type=Path, default=REPO / ".cache", help="strata_cache")
    parser.add_argument("--suite", default="bookworm", help="strata_image_suite")
    given = parser.parse_args()
    image = {"kind": "rootfs", "suite": given.suite, "workloads": REPO / "workloads"}
    try:
        source = families.source(families.load(given.family), {**image, "reference": ""})
        cache = given.cache.resolve()
        first = Builder(source, cache)
        # Beside the cache: what is downloaded is downloaded again, too.
        with tempfile.TemporaryDirectory(dir=cache.parent, prefix=".twice-") as aside:
            second = Builder(source, Path(aside) / "cache")
            try:
                digests = [builder.build().digest for builder in (first, second)]
                lines = differences(first.base, second.base)
            finally:
                Folder(second.cache, "cache").remove()
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    print(f"{given.family}: {digests[0]} and {digests[1]}")
    print("\n".join(lines) or "bit-identical")
    return int(digests[0] != digests[1])


def differences(first: Path, second: Path) -> list[str]:
    """Packages of other versions, then paths that differ, of two root filesystems."""
    ours, theirs = (built.packages(root) for root in (first, second))
    found = [
        f"{name}: {ours.get(name, 'none')}, then {theirs.get(name, 'none')}"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]
    left, right = (entries(root) for root in (first, second))
    return found + [
        f"/{path}" for path in sorted({*left, *right}) if left.get(path) != right.get(path)
    ]


def entries(root: Path) -> dict[str, tuple[object, ...]]:
    """What the digest of an image covers, by path."""
    return {name: _entry(entry) for name, entry in rootfs.walk(root)}


def _entry(entry: os.DirEntry[str]) -> tuple[object, ...]:
    status = entry.stat(follow_symlinks=False)
    owner = (
        stat.S_IFMT(status.st_mode),
        stat.S_IMODE(status.st_mode),
        status.st_uid,
        status.st_gid,
    )
    if entry.is_symlink():
        return (*owner, str(Path(entry.path).readlink()))
    if entry.is_file():
        return (*owner, hashlib.sha256(Path(entry.path).read_bytes()).hexdigest())
    return owner


if __name__ == "__main__":
    sys.exit(main())
