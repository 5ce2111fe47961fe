"""Apptainer for hosts whose distribution has none: an archive of what its published module holds.

    .venv/bin/python tools/apptainer_offline.py make     build it, once; prints its path

What is made stands in requirements/apptainer.yml; its name in the cache follows from that file. It
needs no rights, nothing but the C library, in the version of the controller's or a newer one, and
works wherever it is unpacked. Modules and compiled packages stay in Go's own caches, so that a
build that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml
from strata.errors import Refused
from strata.host.making import Aside, abandoned, clear, making
from strata.host.owned import Folder

REPO = Path(__file__).resolve().parents[1]
MANIFEST = REPO / "requirements/apptainer.yml"
KEY = re.compile(r"[0-9a-f]{12}\.tar")
PATIENCE_S = 3600.0
PROGRAMS = {"go": "golang-go", "gcc": "gcc libc6-dev"}
# A sessions' folder, which it mounts on, and its own answers to questions of rights: none.
SESSIONS, EMPTY = "var/apptainer/mnt/session", "etc/apptainer/capability.json"
CONFIGURED = ["--reproducible", "--prefix=/usr/local"]
CONFIGURED += [f"--without-{part}" for part in ("suid", "network", "seccomp", "libsubid")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=["make"])
    parser.add_argument("--cache", type=Path, default=REPO / ".cache", help="strata_cache")
    given = parser.parse_args()
    os.environ.setdefault("GOTOOLCHAIN", "auto")
    os.environ.setdefault("GOGC", "400")  # less CPU time for the compiler, for some of the memory
    try:
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing:
            packages = " ".join(PROGRAMS[name] for name in missing)
            raise Refused(f"it needs {', '.join(missing)}", then=f"apt install {packages}")
        print(make(yaml.safe_load(MANIFEST.read_text()), given.cache.resolve()))
    except Refused as refused:
        sys.exit(str(refused))


def archive(cache: Path) -> Path:
    """Where what this manifest says is, or will be."""
    return cache / "apptainer" / f"{hashlib.sha256(MANIFEST.read_bytes()).hexdigest()[:12]}.tar"


def make(manifest: dict[str, Any], cache: Path) -> Path:
    """The archive, whole. Raises Refused with what a compiler said."""
    Folder(cache, "cache").claim()
    path = archive(cache)
    with making(path, "build Apptainer", PATIENCE_S) as aside:
        if not path.exists():
            print(f"building Apptainer {manifest['version']} ...", file=sys.stderr, flush=True)
            source, whole = aside.folder / "source", aside.folder / "whole"
            copy(fetch(manifest), source)
            build(aside, manifest, source, whole)
            lay_out(manifest, source, whole)
            aside.place(pack(whole, aside.folder / "whole.tar", path.stem))
    others = (other for other in path.parent.iterdir() if KEY.fullmatch(other.name))
    for other in [*abandoned(path.parent), *(other for other in others if other != path)]:
        clear(other)
    return path


def fetch(manifest: dict[str, Any]) -> Path:
    """The module's folder in Go's cache, proven by the manifest's checksum. Raises Refused."""
    asked = f"{manifest['module']}@{manifest['version']}"
    done = subprocess.run(
        ["go", "mod", "download", "-json", asked],
        # The checksum is ours to check: the database of checksums has not every module everywhere.
        env={**os.environ, "GOFLAGS": "", "GONOSUMDB": manifest["module"]},
        capture_output=True,
        text=True,
        check=False,
    )
    said = json.loads(done.stdout or "{}")
    if said.get("Sum") != manifest["sum"]:
        raise Refused(
            f"{asked} has the checksum that {MANIFEST.name} says",
            given=said.get("Sum") or said.get("Error") or done.stderr.strip(),
            then="see whether Go's proxy can be reached: go env GOPROXY",
        )
    return Path(said["Dir"])


def copy(module: Path, source: Path) -> None:
    """Copy a module out of Go's cache, in which nothing can be written, and scripts do not run."""
    shutil.copytree(module, source)
    for path in (source, *source.rglob("*")):
        path.chmod(0o755)


def build(aside: Aside, manifest: dict[str, Any], source: Path, whole: Path) -> None:
    """Compile the programs of a writable copy of the module into the folder that is to be packed.

    Its own Makefile would also empty Go's cache, and make pages of a manual.
    """
    version, tags = manifest["version"].removeprefix("v"), " ".join(manifest["tags"])
    within = ["env", f"--chdir={source}"]
    aside.run([*within, "sh", "mconfig", "-V", version, *CONFIGURED])
    named = {"GO_TOOL": "go", "BUILDDIR": str(source / "builddir"), "GO_BUILD_TAGS": tags}
    aside.run([*within, "go", "generate", "./internal/pkg/buildcfg"], GOFLAGS="", **named)
    linked = ["-ldflags", "-s -w"]
    for place, package in manifest["programs"].items():
        out = ["-o", str(whole / place)]
        flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false"]
        said = [*flags, "-tags", tags, *linked, *out, package]
        aside.run([*within, "go", "build", *said], GOFLAGS="", CGO_ENABLED="1")


def lay_out(manifest: dict[str, Any], source: Path, whole: Path) -> None:
    """Put beside the programs what they look for."""
    for place, file in manifest["files"].items():
        (whole / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, whole / place)
    (whole / SESSIONS).mkdir(parents=True)
    (whole / EMPTY).touch()
    generated = ["confgen", str(whole / "etc/apptainer/apptainer.conf")]
    subprocess.run([whole / "bin/apptainer", *generated], check=True, capture_output=True)


def pack(whole: Path, out: Path, key: str) -> Path:
    """The folder as an archive; its last member says that what came before it is whole."""
    (whole / key).touch()
    with tarfile.open(out, "w") as tar:
        for path in sorted(whole.rglob("*"), key=lambda path: (path.name == key, path)):
            tar.add(path, str(path.relative_to(whole)), recursive=False, filter=_plain)
    return out


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Root's, readable by all, and without what depends on who made it, and when."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


if __name__ == "__main__":
    main()
