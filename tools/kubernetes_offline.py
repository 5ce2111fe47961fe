"""The offline folder of a Kubernetes cluster: programs from their published Go modules, and images.

    .venv/bin/python tools/kubernetes_offline.py make     fill the folder, once; prints its path
    .venv/bin/python tools/kubernetes_offline.py lock     after a change of versions

What is made stands in requirements/kubernetes.yml; its name, and that of the folder in the cache,
follow from that file. Modules and compiled packages stay in Go's own caches (`go env GOMODCACHE
GOCACHE`), so that a build that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from strata.errors import Refused
from strata.host import debian
from strata.host.making import Aside, abandoned, clear, making
from strata.host.owned import Folder

REPO = Path(__file__).resolve().parents[1]
MANIFEST = REPO / "requirements/kubernetes.yml"
LOCKS = REPO / "requirements/kubernetes"
SUMS = "SHA256SUMS"
KEY = re.compile(r"[0-9a-f]{12}")
PATIENCE_S = 7200.0
PROGRAMS = {"go": "golang-go", "gcc": "gcc libc6-dev", "mmdebstrap": "mmdebstrap"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNREAD = ("doc", "info", "locale", "man")  # of what the distribution's packages bring
Part = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=["make", "lock"])
    parser.add_argument("--cache", type=Path, default=REPO / ".cache", help="strata_cache")
    given = parser.parse_args()
    os.environ.setdefault("GOTOOLCHAIN", "auto")
    try:
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing:
            packages = " ".join(PROGRAMS[name] for name in missing)
            raise Refused(f"it needs {', '.join(missing)}", then=f"apt install {packages}")
        manifest = yaml.safe_load(MANIFEST.read_text())
        if given.verb == "lock":
            for name, part in manifest["modules"].items():
                lock(name, part)
        else:
            print(fill(manifest, given.cache.resolve()))
    except Refused as refused:
        sys.exit(str(refused))


def folder(cache: Path) -> Path:
    """Where the offline folder of this manifest is, or will be."""
    return cache / "kubernetes" / hashlib.sha256(MANIFEST.read_bytes()).hexdigest()[:12]


def fill(manifest: Part, cache: Path) -> Path:
    """The folder, whole. Raises Refused with what a compiler said."""
    Folder(cache, "cache").claim()
    path = folder(cache)
    with making(path, "build the offline folder of Kubernetes", PATIENCE_S) as aside:
        if not path.exists():
            whole = aside.folder / "whole"
            for name, part in manifest["modules"].items():
                print(f"building {name} {part['version']} ...", file=sys.stderr, flush=True)
                build(aside, name, part)
            print("making the images ...", file=sys.stderr, flush=True)
            pack(aside, manifest, whole)
            for kind in ("bin", "cni"):
                (aside.folder / kind).rename(whole / kind)
            note(whole)
            aside.place(whole)
    others = (other for other in path.parent.iterdir() if KEY.fullmatch(other.name))
    for other in [*abandoned(path.parent), *(other for other in others if other != path)]:
        clear(other)
    return path


# Programs.


def build(aside: Aside, name: str, part: Part) -> None:
    """Compile a module's programs into the maker's folder, by their locked modules."""
    module = aside.folder / "modules" / name
    module.mkdir(parents=True)
    shutil.copy(LOCKS / f"{name}.mod", module / "go.mod")
    shutil.copy(LOCKS / f"{name}.sum", module / "go.sum")
    stamp = part.get("stamp", {"in": [], "as": {}})
    values = [f"-X {at}.{key}={value}" for at in stamp["in"] for key, value in stamp["as"].items()]
    static = ["-extldflags -static"] if part.get("cgo") else []
    flags = ["-trimpath", "-buildvcs=false", "-mod=readonly"]
    run = partial(aside.run, GOFLAGS="", CGO_ENABLED="1" if part.get("cgo") else "0")
    for place, package in part["programs"].items():
        out = ["-o", str(aside.folder / place)]
        linked = ["-ldflags", " ".join(["-s -w", *static, *values])]
        run(["go", "-C", str(module), "build", *flags, *linked, *out, package])
    for place, source in part.get("compiled", {}).items():
        file = Path(_download(part)["Dir"]) / source
        version = _tag_of(place)
        define = f"-DVERSION={version}"
        aside.run(["gcc", "-Os", "-static", define, "-o", str(aside.folder / place), str(file)])


def _tag_of(place: str) -> str:
    manifest = yaml.safe_load(MANIFEST.read_text())
    images = [image for archive in manifest["archives"].values() for image in archive]
    return str(next(image["tag"] for image in images if image["name"] == Path(place).name))


def lock(name: str, part: Part) -> None:
    """Write the versions and checksums of all modules that a module's programs need."""
    with tempfile.TemporaryDirectory() as temporary:
        module = Path(temporary)
        lines = [f"module strata/{name}", f"go {_go(module, 'env', 'GOVERSION').strip()[2:]}"]
        if "staging" in part:
            source = _download(part)
            lines[1:] = [*_staged(source, part)]
            shutil.copy(Path(source["Dir"]) / "go.sum", module / "go.sum")
        (module / "go.mod").write_text("\n".join([*lines, ""]))
        wanted = {part["module"]: part["version"], **part.get("instead", {})}
        _go(module, "get", *(f"{path}@{version}" for path, version in wanted.items()))
        _go(module, "list", "-mod=mod", "-deps", *part["programs"].values())
        for kind in ("mod", "sum"):
            shutil.copy(module / f"go.{kind}", LOCKS / f"{name}.{kind}")


def _staged(source: Part, part: Part) -> list[str]:
    """The lines of a go.mod that has what a source has, with its own folders as modules."""
    said = json.loads(_go(Path(), "mod", "edit", "-json", source["GoMod"]))
    replaced = {each["Old"]["Path"]: each["New"] for each in said["Replace"]}
    lines = [f"go {said['Go']}", f"godebug default={part['godebug']}"]
    for each in said["Require"]:
        if each["Path"] not in replaced:
            lines.append(f"require {each['Path']} {each['Version']}")
    for path, new in replaced.items():
        here = new["Path"].startswith("./")
        target = f"{path} {part['staging']}" if here else f"{new['Path']} {new['Version']}"
        lines.append(f"replace {path} => {target}")
    return lines


def _download(part: Part) -> Part:
    """What Go says of a module that it has fetched: `Dir` and `GoMod` are paths."""
    said = _go(Path(), "mod", "download", "-json", f"{part['module']}@{part['version']}")
    found: Part = json.loads(said)
    return found


def _go(module: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=module if module.is_absolute() else tempfile.gettempdir(),
        env={**os.environ, "GOFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Refused(
            f"go {arguments[0]} failed", given=" ".join(arguments)[:400], then=done.stderr
        )
    return done.stdout


# Images: archives as `docker save` writes them, which every engine reads.


def pack(aside: Aside, manifest: Part, whole: Path) -> None:
    """Make the archives, each with the layers that its images share."""
    base = aside.folder / "base.tar"
    unread = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNREAD]
    debian.bootstrap(
        aside.run,
        manifest["base"]["suite"],
        manifest["base"]["packages"],
        base,
        "--variant=essential",
        *unread,
        SOURCE_DATE_EPOCH="0",
    )
    (whole / "images").mkdir(parents=True)
    registry = manifest["offline"]["images"]["kubernetes"]
    machine = _go(Path(), "env", "GOARCH").strip()
    for name, images in manifest["archives"].items():
        with tarfile.open(whole / f"images/{name}.tar", "w") as archive:
            said = [image_of(aside, archive, image, base, registry, machine) for image in images]
            _add(archive, "manifest.json", json.dumps(said).encode())


def image_of(
    aside: Aside, archive: tarfile.TarFile, image: Part, base: Path, registry: str, machine: str
) -> Part:
    """Put an image's layers and configuration in the archive; its entry in the manifest."""
    layer = aside.folder / f"{image['name']}.layer"
    with tarfile.open(layer, "w") as made:
        for path, program in image["files"].items():
            _add(made, path.lstrip("/"), (aside.folder / "image" / program).read_bytes(), 0o755)
    layers = {}
    for path in ([base] if image.get("base") else []) + [layer]:
        with path.open("rb") as file:
            layers[hashlib.file_digest(file, "sha256").hexdigest()] = path
    for digest, path in layers.items():
        if f"{digest}.tar" not in archive.getnames():
            archive.add(path, f"{digest}.tar", filter=_plain)
    config = {
        **{"architecture": machine, "os": "linux"},
        "config": {"Env": [f"PATH={PATH}"], "Entrypoint": image.get("entrypoint")},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in layers]},
    }
    data = json.dumps(config, sort_keys=True).encode()
    named = f"{hashlib.sha256(data).hexdigest()}.json"
    _add(archive, named, data)
    layer.unlink()
    tags = [f"{registry}/{image['name']}:{image['tag']}"]
    return {"Config": named, "RepoTags": tags, "Layers": [f"{digest}.tar" for digest in layers]}


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without what depends on who made it, and when."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def note(whole: Path) -> None:
    """Note the SHA-256 of every file, as `sha256sum --check` reads it."""
    lines = []
    for path in sorted(path for path in whole.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{digest}  {path.relative_to(whole)}\n")
    (whole / SUMS).write_text("".join(lines))


if __name__ == "__main__":
    main()
