"""Offline folders of a Kubernetes cluster: programs from published Go modules, and images.

    .venv/bin/python tools/kubernetes_offline.py make [BUNDLE ...]   fill them; prints their paths
    .venv/bin/python tools/kubernetes_offline.py lock [BUNDLE ...]   after a change of versions

A bundle is what one manifest makes, requirements/BUNDLE.yml: `kubernetes` is a cluster with
flannel, and is taken unless others are named; `calico` and `cilium` are a network of pods each. The
name of the folder in the cache follows from the manifest. Modules and compiled packages stay in
Go's own caches (`go env GOMODCACHE GOCACHE`), so that a build that was killed goes on where it was.
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
BUNDLES = ("kubernetes", "calico", "cilium")
LOCKS = REPO / "requirements/kubernetes"
SUMS = "SHA256SUMS"
KEY = re.compile(r"[0-9a-f]{12}")
PATIENCE_S = 7200.0
PROGRAMS = {"go": "golang-go", "gcc": "gcc libc6-dev", "mmdebstrap": "mmdebstrap"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The first Go that fetches the version that a module wants, and what is fetched where there is an
# older one: Go's releases are modules as well.
FIRST_GO, FETCHED_GO = (1, 21), "golang.org/toolchain@v0.0.1-go1.24.4.linux-"
UNREAD = ("doc", "info", "locale", "man")  # of what the distribution's packages bring
UNUSED = ("vendor", "test", "Documentation")  # of a module's folder, large and no part of a program
# What an offline folder has beside its images, as far as its parts make it.
MADE = ("bin", "cni", "kinds.yml")
Part = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=["make", "lock"])
    parser.add_argument("bundles", nargs="*", metavar="BUNDLE", help=", ".join(BUNDLES))
    parser.add_argument("--cache", type=Path, default=REPO / ".cache", help="strata_cache")
    given = parser.parse_args()
    os.environ.setdefault("GOTOOLCHAIN", "auto")
    # The compiler collects its garbage less often: 0.85 of the CPU time, for some of the memory.
    os.environ.setdefault("GOGC", "400")
    try:
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing:
            packages = " ".join(PROGRAMS[name] for name in missing)
            raise Refused(f"it needs {', '.join(missing)}", then=f"apt install {packages}")
        have_go()
        for bundle in given.bundles or BUNDLES[:1]:
            if given.verb == "lock":
                for name, part in read(bundle)["modules"].items():
                    lock(name, part)
            else:
                print(fill(bundle, given.cache.resolve()))
    except Refused as refused:
        sys.exit(str(refused))


def have_go() -> None:
    """Let `go` be one that is new enough: the distribution's may be older. Raises Refused."""
    version, machine = _go(Path(), "env", "GOVERSION", "GOARCH").split()
    numbers = re.findall(r"\d+", version)
    if tuple(map(int, numbers[:2])) >= FIRST_GO:
        return
    said = _go(Path(), "mod", "download", "-json", FETCHED_GO + machine)
    fetched = Path(json.loads(said)["Dir"])
    for program in (*fetched.glob("bin/*"), *fetched.glob("pkg/tool/*/*")):
        program.chmod(0o755)  # in a module nothing is a program
    os.environ["PATH"] = f"{fetched}/bin:{os.environ['PATH']}"


def manifest(bundle: str) -> Path:
    """The file that says what a bundle is made of. Raises Refused where there is no such bundle."""
    if bundle not in BUNDLES:
        raise Refused(
            "a bundle is one that has a manifest",
            example=BUNDLES[0],
            given=bundle,
            then=f"name one of {', '.join(BUNDLES)}",
        )
    return REPO / f"requirements/{bundle}.yml"


def read(bundle: str) -> Part:
    """What the manifest of a bundle says."""
    said: Part = yaml.safe_load(manifest(bundle).read_text())
    return said


def folder(cache: Path, bundle: str) -> Path:
    """Where the offline folder of this bundle is, or will be."""
    return cache / "kubernetes" / hashlib.sha256(manifest(bundle).read_bytes()).hexdigest()[:12]


def fill(bundle: str, cache: Path) -> Path:
    """The folder of a bundle, whole. Raises Refused with what a compiler said."""
    Folder(cache, "cache").claim()
    said, path = read(bundle), folder(cache, bundle)
    with making(path, f"build the offline folder of {bundle}", PATIENCE_S) as aside:
        if not path.exists():
            whole = aside.folder / "whole"
            for name, part in said["modules"].items():
                print(f"building {name} {part['version']} ...", file=sys.stderr, flush=True)
                build(aside, name, part, _tags(said))
            print("making the images ...", file=sys.stderr, flush=True)
            pack(aside, said, whole)
            for kind in MADE:
                if (aside.folder / kind).exists():
                    (aside.folder / kind).rename(whole / kind)
            note(whole)
            aside.place(whole)
    kept = {folder(cache, each) for each in BUNDLES}
    others = (other for other in path.parent.iterdir() if KEY.fullmatch(other.name))
    for other in [*abandoned(path.parent), *(other for other in others if other not in kept)]:
        clear(other)
    return path


def _tags(said: Part) -> dict[str, str]:
    """The tags of the images by their names."""
    return {image["name"]: image["tag"] for images in said["archives"].values() for image in images}


# Programs.


def build(aside: Aside, name: str, part: Part, tags: dict[str, str]) -> None:
    """Compile a module's programs into the maker's folder, by their locked modules.

    `tags` are those of the images: a program of C has the tag of its own as its version.
    """
    module = aside.folder / "modules" / name
    module.mkdir(parents=True)
    shutil.copy(LOCKS / f"{name}.mod", module / "go.mod")
    shutil.copy(LOCKS / f"{name}.sum", module / "go.sum")
    if "edited" in part:
        edit(module, part)
    run = partial(aside.run, GOFLAGS="", CGO_ENABLED="1" if part.get("cgo") else "0")
    # What a debugger would read is not made: the linker would throw it away.
    flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false"]
    linked = ["-ldflags", _linked(part)]
    for place, package in part["programs"].items():
        chosen = (
            [f"-tags={part['build_tags'][place]}"] if place in part.get("build_tags", {}) else []
        )
        out = ["-o", str(aside.folder / place)]
        run(["go", "-C", str(module), "build", *flags, *chosen, *linked, *out, package])
    for place, source in part.get("compiled", {}).items():
        file = Path(_download(part)["Dir"]) / source
        define = f"-DVERSION={tags[Path(place).name]}"
        aside.run(["gcc", "-Os", "-static", define, "-o", str(aside.folder / place), str(file)])
    for place, source in part.get("copied", {}).items():
        _copy(Path(_download(part)["Dir"]) / source, aside.folder / place)
    for place, pattern in part.get("joined", {}).items():
        texts = [file.read_text() for file in sorted(Path(_download(part)["Dir"]).glob(pattern))]
        (aside.folder / place).write_text("\n---\n".join(texts))


def _linked(part: Part) -> str:
    """What the linker is told."""
    stamp = part.get("stamp", {"in": [], "as": {}})
    values = [
        f"-X '{at}.{key}={value}'" for at in stamp["in"] for key, value in stamp["as"].items()
    ]
    return " ".join(["-s -w", *(["-extldflags -static"] if part.get("cgo") else []), *values])


def edit(module: Path, part: Part) -> None:
    """Let a module be built from a copy of its source with changes. Raises Refused.

    Each change is a mapping of a `file` of the source, what stands there once (`old`), and `new`.
    """
    source = module / "source"
    _copy(Path(_download(part)["Dir"]), source)
    for each in part["edited"]:
        file = source / each["file"]
        text = file.read_text()
        if text.count(each["old"]) != 1:
            raise Refused(
                f"what is changed in {part['module']} stands there once",
                given=f"{text.count(each['old'])} times in {each['file']}",
                then="look at the source of this version, and correct `edited` in the manifest",
            )
        file.write_text(text.replace(each["old"], each["new"]))
    with (module / "go.mod").open("a") as file:
        file.write(f"\nreplace {part['module']} => ./source\n")


def _copy(source: Path, place: Path) -> None:
    """A copy that can be changed: what Go keeps cannot."""
    place.parent.mkdir(parents=True, exist_ok=True)

    def unused(at: str, _: list[str]) -> tuple[str, ...]:
        return UNUSED if Path(at) == source else ()

    shutil.copytree(source, place, ignore=unused, copy_function=shutil.copyfile)
    for folder in (place, *(path for path in place.rglob("*") if path.is_dir())):
        folder.chmod(0o755)


def lock(name: str, part: Part) -> None:
    """Write the versions and checksums of all modules that a module's programs need."""
    with tempfile.TemporaryDirectory() as temporary:
        module = Path(temporary)
        lines = [f"module strata/{name}", f"go {_go(module, 'env', 'GOVERSION').strip()[2:]}"]
        if part.keys() & {"staging", "replaces"}:
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
    """The lines of a go.mod that has what a source has, with its own folders as modules.

    A module's replacements hold where it is built itself, and are not inherited.
    """
    said = json.loads(_go(Path(), "mod", "edit", "-json", source["GoMod"]))
    replaced = {each["Old"]["Path"]: each["New"] for each in said["Replace"]}
    lines = [f"go {said['Go']}"]
    if "godebug" in part:
        lines.append(f"godebug default={part['godebug']}")
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


def pack(aside: Aside, said: Part, whole: Path) -> None:
    """Make the archives, each with the layers that its images share."""
    base = aside.folder / "base.tar"
    unread = [*(f"/usr/share/{name}/*" for name in UNREAD), *said["base"].get("unread", [])]
    debian.bootstrap(
        aside.run,
        said["base"]["suite"],
        said["base"]["packages"],
        base,
        "--variant=essential",
        *(f"--dpkgopt=path-exclude={path}" for path in unread),
        SOURCE_DATE_EPOCH="0",
    )
    (whole / "images").mkdir(parents=True)
    machine = _go(Path(), "env", "GOARCH").strip()
    for name, images in said["archives"].items():
        with tarfile.open(whole / f"images/{name}.tar", "w") as archive:
            made = [
                image_of(aside, archive, image, base, said["registry"], machine) for image in images
            ]
            _add(archive, "manifest.json", json.dumps(made).encode())


def image_of(
    aside: Aside, archive: tarfile.TarFile, image: Part, base: Path, registry: str, machine: str
) -> Part:
    """Put an image's layers and configuration in the archive; its entry in the manifest."""
    layer = aside.folder / f"{image['name']}.layer"
    with tarfile.open(layer, "w") as made:
        _fill(made, image, aside.folder / "image")
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


def _fill(layer: tarfile.TarFile, image: Part, made: Path) -> None:
    """What an image has beside its base: programs and folders that were made, texts, and links."""
    for path, program in image["files"].items():
        _add(layer, path.lstrip("/"), (made / program).read_bytes(), 0o755)
    for path, text in image.get("texts", {}).items():
        _add(layer, path.lstrip("/"), text.encode(), 0o755)
    for path, name in image.get("folders", {}).items():
        for file in sorted(file for file in (made / name).rglob("*") if file.is_file()):
            inside = f"{path.lstrip('/')}/{file.relative_to(made / name)}"
            _add(layer, inside, file.read_bytes())
    for path, target in image.get("links", {}).items():
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        layer.addfile(entry)


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
