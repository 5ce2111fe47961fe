"""Building the image of a family of workloads on the controller.

    root filesystem of the distribution, Python in it   (mmdebstrap)
      + the family's wheels in /opt/strata/site          (pip, hashes checked)
      + byte code that depends on the sources only
      + the workloads in /opt/strata/workloads
      = one canonical tar

The first three make the base, which is kept: a change to a workload packs again and no more.
Without root there is no root filesystem; a virtual environment with the same wheels takes its
place, and every record says so.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import files
from ..errors import Refused
from ..host import debian, making, owned, uses
from ..host.making import Aside
from ..identity import digest
from . import rootfs

# Raised when the same sources give other bytes than before: an image is found by its key.
RECIPE = 2
SITE = "opt/strata/site"
# Of the distribution, in the image of every family.
PYTHON = ("python3-minimal", "libpython3-stdlib")
# What tells of the machine, the mirror or the pip that built it, and of nothing in the image.
FOREIGN = (
    *("etc/hostname", "etc/resolv.conf", "etc/machine-id", "etc/apt/sources.list"),
    *(
        f"{SITE}/*.dist-info/{name}"
        for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
    ),
    *(f"{folder}/**/*" for folder in ("var/cache/apt", "var/lib/apt/lists", "var/log")),
)
UMASK = 0o022  # whatever the user's: modes are part of the digest
ARCHIVE, RECEIPT, ROOT = "image.tar", "built.json", "root"
# All that may be in the folder of images. Earlier versions had one family, and named none.
MADE = re.compile(
    r"(base-|venv-)?[0-9a-f]{12}(\.tar|\.json|\.part)?|(distribution|exported)\.tar"
    r"|(?P<family>[a-z][a-z0-9_]*)-(base-|venv-)?[0-9a-f]{12}"
)
# Wheels for the image are chosen for its Python, not for the controller's.
WHEEL_TARGET = ("--python-version", "3.11", "--implementation", "cp", "--only-binary", ":all:")
MANYLINUX = ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")
LEGACY = ("manylinux2014", "manylinux2010", "manylinux1")


@dataclass(frozen=True)
class Source:
    """All that decides what is in an image.

    Raises Refused for an OCI image without a reference, and for a virtual environment where the
    family needs packages of the distribution.
    """

    family: str
    kind: str  # rootfs, oci or venv
    suite: str
    packages: list[str]  # of the distribution, beside Python
    lock: Path | None  # the packages of Python; None for none
    workloads: Path
    without: list[str] = field(default_factory=list)  # paths below those packages
    reference: str = ""  # of an OCI image, for kind oci

    def __post_init__(self) -> None:
        if self.kind == "oci" and not self.reference.strip():
            raise Refused(
                "an image that is taken from an OCI image needs its reference",
                example="-e strata_image_kind=oci -e strata_image_reference=NAME:TAG",
                given=f"kind oci, reference {self.reference!r}",
                then="set strata_image_reference",
            )
        if self.kind == "venv" and self.packages:
            raise Refused(
                "a virtual environment holds packages of Python, and none of the distribution",
                example="-e strata_image_kind=rootfs",
                given=f"the image family {self.family}, which needs {', '.join(self.packages)}",
                then="run as root, or run an experiment whose workloads do without them",
            )

    @cached_property
    def base_key(self) -> str:
        """Names the base: everything but the workloads."""
        lock = self.lock.read_text() if self.lock else ""
        given = self.reference if self.kind == "oci" else lock
        python = f"{sys.version_info.major}.{sys.version_info.minor}" if self.kind == "venv" else ""
        packages = sorted([*PYTHON, *self.packages])
        made_of = [RECIPE, self.kind, self.suite, packages, given, self.without, python]
        return digest(made_of)[:12]

    @cached_property
    def key(self) -> str:
        """Names the image before it is built."""
        return digest([self.base_key, rootfs.tree_digest(self.workloads)])[:12]


@dataclass(frozen=True)
class Built:
    """An image ready to be carried to hosts: `path` is its tar, or the venv's folder."""

    family: str
    kind: str
    key: str
    digest: str
    path: str
    bytes: int


class Builder:
    """Builds into `cache`; `mirror` is the distribution's, '' for its usual one.

    `export` writes the file system of the OCI image of that name as a tar, for kind oci.
    An image is a folder named by its key, whole or not there, and so is its base.
    """

    def __init__(
        self,
        source: Source,
        cache: Path,
        mirror: str = "",
        export: Callable[[str, Path], None] | None = None,
    ) -> None:
        self.source, self.cache, self.mirror = source, cache, mirror
        self._export = export
        self.folder = cache / "images"
        self.path = self.folder / f"{source.family}-{source.key}"
        base = "venv" if source.kind == "venv" else "base"
        self.base = self.folder / f"{source.family}-{base}-{source.base_key}"

    def built(self) -> Built | None:
        """The finished image of this source, when it is there and has its size."""
        try:
            found = json.loads((self.path / RECEIPT).read_text())
            built = Built(**found, path=self._at())
            size = 0 if built.kind == "venv" else Path(built.path).stat().st_size
        except (OSError, TypeError, ValueError):
            return None
        return built if size == built.bytes else None

    def build(self) -> Built:
        """Build what is missing. Raises Refused when a tool or a download fails.

        So it does for a cache that is not Strata's.
        """
        owned.Folder(self.cache, "cache").claim()
        before = os.umask(UMASK)
        try:
            with making.making(self.path, "build the workload image") as aside:
                # While we waited for it, another may have built it.
                return self.built() or self._build(aside)
        finally:
            os.umask(before)

    def _build(self, aside: Aside) -> Built:
        """Fill the folder of the image and put it in place."""
        fill = {"rootfs": self._fill_base, "oci": self._export_oci, "venv": self._fill_venv}
        with making.making(self.base, "build the base of the workload image") as base:
            if not self.base.exists():
                fill[self.source.kind](base)
                base.place(base.folder / ROOT)
            make = self._link if self.source.kind == "venv" else self._pack
            content, size = make(aside.folder)
        about = {"kind": self.source.kind, "key": self.source.key, "digest": content}
        about["family"] = self.source.family
        files.write_json(aside.folder / RECEIPT, {**about, "bytes": size})
        aside.place()
        return Built(**about, path=self._at(), bytes=size)

    def _at(self) -> str:
        return str(self.path if self.source.kind == "venv" else self.path / ARCHIVE)

    def use(self, holder: dict[str, Any]) -> None:
        """Note that a run uses this image."""
        uses.note([str(self.path), str(self.base)], holder)

    def superfluous(self) -> list[Path]:
        """Images and bases of earlier sources of this family that no run uses, and what was left
        half made. Those of other families stay.

        Raises Refused for a cache that is not Strata's.
        """
        if not owned.Folder(self.cache, "cache").is_ours() or not self.folder.is_dir():
            return []
        kept = {str(self.path), str(self.base), *uses.living()}
        found = ((path, MADE.fullmatch(path.name)) for path in sorted(self.folder.iterdir()))
        ours = (None, self.source.family)
        made = [path for path, match in found if match and match["family"] in ours]
        others = [path for path in made if str(path) not in kept]
        return others + making.abandoned(self.folder)

    def _fill_base(self, aside: Aside) -> None:
        root = _root(aside)
        self._download(aside)
        archive = aside.folder / "distribution.tar"
        debian.bootstrap(
            aside.run,
            self.source.suite,
            [*PYTHON, *self.source.packages],
            archive,
            sources=[self.mirror] if self.mirror else [],
            SOURCE_DATE_EPOCH=str(rootfs.EPOCH),
        )
        aside.run(["tar", "-xpf", str(archive), "--numeric-owner", "-C", str(root)])
        (root / SITE).mkdir(parents=True)
        self._install(aside, root / SITE)
        for name in self.source.without:
            owned.remove(root / SITE / name)
        # Byte code by content instead of by time: the same on every build, and TensorFlow
        # starts in half the time with it.
        compiled = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", f"/{SITE}"]
        aside.run(["chroot", str(root), "/usr/bin/python3", *compiled], PYTHONHASHSEED="0")
        _finish(root)

    def _download(self, aside: Aside) -> None:
        """All wheels of the lock. One at a time: another image's may be the same."""
        if self.source.lock is None:
            return
        wheels = self.cache / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        with making.only_maker(wheels, "download wheels"):
            given = ["--no-deps", "--dest", str(wheels), *_target(), *self._locked()]
            _pip(aside, "download", *given)

    def _install(self, aside: Aside, site: Path) -> None:
        if self.source.lock is None:
            return
        offline = ["--no-index", "--find-links", str(self.cache / "wheels"), "--no-compile"]
        given = ["--no-deps", "--target", str(site), *offline, *_target(), *self._locked()]
        _pip(aside, "install", *given)
        for made in site.glob("*.dist-info"):
            for wheel in (self.cache / "wheels").glob(f"{made.stem}-*.whl"):
                _libraries(wheel, site)

    def _locked(self) -> list[str]:
        return ["--require-hashes", "--requirement", str(self.source.lock)]

    def _export_oci(self, aside: Aside) -> None:
        """The file system of an OCI image, from an engine that can fetch it."""
        assert self._export  # noqa: S101 - whoever asks for this kind gives it
        archive, root = aside.folder / "exported.tar", _root(aside)
        self._export(self.source.reference, archive)
        exclude = ["--exclude=dev/*", "--exclude=.dockerenv"]
        aside.run(["tar", "-xpf", str(archive), "--numeric-owner", *exclude, "-C", str(root)])
        _finish(root)

    def _fill_venv(self, aside: Aside) -> None:
        root = aside.folder / ROOT
        aside.run([sys.executable, "-m", "venv", str(root)])
        if self.source.lock is not None:
            pip = [str(root / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
            aside.run([*pip, *self._locked()])

    def _pack(self, folder: Path) -> tuple[str, int]:
        """Put the workloads of today into the base, and write the whole as the canonical tar."""
        code = self.base / "opt/strata/workloads"
        owned.remove(code)
        rootfs.copy_sources(self.source.workloads, code)
        for path in (code, *code.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.chown(path, 0, 0)
        content = rootfs.pack(self.base, folder / ARCHIVE)
        return content, (folder / ARCHIVE).stat().st_size

    def _link(self, folder: Path) -> tuple[str, int]:
        """The virtual environment by links, and the workloads of today beside them."""
        for name in ("bin", "lib", "pyvenv.cfg"):
            (folder / name).symlink_to(self.base / name)
        rootfs.copy_sources(self.source.workloads, folder / "strata" / "workloads")
        content = digest([self.source.base_key, rootfs.tree_digest(self.source.workloads)])
        return content, 0


def _libraries(wheel: Path, site: Path) -> None:
    """What a wheel has for `lib` beside its packages, which pip leaves out of a target folder."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, there, inside = name.partition(".data/data/lib/")
            if there and not name.endswith("/"):
                path = site / "lib" / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))


def _root(aside: Aside) -> Path:
    root = aside.folder / ROOT
    root.mkdir()
    return root


def _finish(root: Path) -> None:
    """Remove what depends on where it was built, add what every image has, and let nobody in."""
    for pattern in FOREIGN:
        for path in root.glob(pattern):
            if path.is_symlink() or not path.is_dir():
                path.unlink()
    for name in (*rootfs.MOUNT_POINTS, "opt/strata"):
        (root / name).mkdir(parents=True, exist_ok=True)
    # Programs in it belong to root and have its rights.
    root.chmod(0o700)


def _target() -> list[str]:
    platforms = [*(f"manylinux_{version}" for version in MANYLINUX), *LEGACY]
    return [*WHEEL_TARGET, *(f"--platform={name}_x86_64" for name in platforms)]


def _pip(aside: Aside, *arguments: str) -> None:
    aside.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments])
