"""Building the workload image on the controller.

    root filesystem of the distribution, Python in it   (mmdebstrap)
      + the locked wheels in /opt/strata/site            (pip, hashes checked)
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
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from . import files, image, owned
from .errors import Refused
from .identity import digest

SITE = "opt/strata/site"
# Headers and a compiler library: half a gigabyte that no workload opens.
PRUNED = ("tensorflow/include", "clang", "bin")
# Wheels for the image are chosen for its Python, not for the controller's.
WHEEL_TARGET = ("--python-version", "3.11", "--implementation", "cp", "--only-binary", ":all:")
MANYLINUX = ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")
LEGACY = ("manylinux2014", "manylinux2010", "manylinux1")


@dataclass(frozen=True)
class Source:
    """All that decides what is in an image."""

    kind: str  # rootfs, oci or venv
    suite: str
    packages: list[str]
    lock: Path
    workloads: Path
    reference: str = ""  # of an OCI image, for kind oci

    @cached_property
    def base_key(self) -> str:
        """Names the base: everything but the workloads."""
        lock = self.lock.read_text() if self.kind != "oci" else self.reference
        python = f"{sys.version_info.major}.{sys.version_info.minor}" if self.kind == "venv" else ""
        return digest([self.kind, self.suite, sorted(self.packages), lock, PRUNED, python])[:12]

    @cached_property
    def key(self) -> str:
        """Names the image before it is built."""
        return digest([self.base_key, image.tree_digest(self.workloads)])[:12]


@dataclass(frozen=True)
class Built:
    """An image ready to be carried to hosts: `path` is its tar, or the venv's folder."""

    kind: str
    key: str
    digest: str
    path: str
    bytes: int


class Builder:
    """Builds into `cache`; `mirror` is the distribution's, '' for its usual one."""

    def __init__(self, source: Source, cache: Path, mirror: str = "") -> None:
        self.source, self.cache, self.mirror = source, cache, mirror
        self.folder = cache / "images"
        self._receipt = self.folder / f"{source.key}.json"

    def built(self) -> Built | None:
        """The finished image of this source, when it is there and has its size."""
        if not self._receipt.exists():
            return None
        found = Built(**json.loads(self._receipt.read_text()))
        path = Path(found.path)
        whole = path.exists() and (found.kind == "venv" or path.stat().st_size == found.bytes)
        return found if whole else None

    def build(self) -> Built:
        """Build what is missing. Raises Refused when a tool or a download fails.

        So it does for a cache that is not Strata's: images of earlier sources in it are removed.
        """
        owned.Folder(self.cache, "cache").claim()
        self.folder.mkdir(parents=True, exist_ok=True)
        makers = {"rootfs": self._rootfs, "oci": self._oci, "venv": self._venv}
        built = makers[self.source.kind]()
        self._prune(built)
        files.write_json(self._receipt, asdict(built))
        return built

    def _rootfs(self) -> Built:
        base = self.folder / f"base-{self.source.base_key}"
        if not base.exists():
            self._make(base, self._fill_base)
        return self._pack(base)

    def _oci(self) -> Built:
        base = self.folder / f"base-{self.source.base_key}"
        if not base.exists():
            self._make(base, self._export_oci)
        return self._pack(base)

    def _make(self, base: Path, fill: Callable[[Path], None]) -> None:
        """Fill a folder aside and rename it, so that a base is whole or not there."""
        aside = base.with_suffix(".part")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        fill(aside)
        for name in (*image.MOUNT_POINTS, "opt/strata"):
            (aside / name).mkdir(parents=True, exist_ok=True)
        aside.rename(base)

    def _fill_base(self, root: Path) -> None:
        wheels = self._download()
        archive = self.folder / "distribution.tar"
        command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(self.source.packages)}"]
        mirror = [self.mirror] if self.mirror else []
        _run(
            [*command, self.source.suite, str(archive), *mirror], SOURCE_DATE_EPOCH=str(image.EPOCH)
        )
        _run(["tar", "-xpf", str(archive), "--numeric-owner", "-C", str(root)])
        archive.unlink()
        self._install(wheels, root / SITE)
        for name in PRUNED:
            shutil.rmtree(root / SITE / name, ignore_errors=True)
        # Byte code by content instead of by time: the same on every build, and TensorFlow
        # starts in half the time with it.
        compiled = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", f"/{SITE}"]
        _run(["chroot", str(root), "/usr/bin/python3", *compiled], PYTHONHASHSEED="0")
        for name in ("var/cache/apt", "var/lib/apt/lists", "var/log"):
            for leftover in (root / name).rglob("*"):
                if leftover.is_file():
                    leftover.unlink()

    def _download(self) -> Path:
        wheels = self.cache / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        _pip("download", "--no-deps", "--dest", str(wheels), *_target(), *self._locked())
        return wheels

    def _install(self, wheels: Path, site: Path) -> None:
        offline = ["--no-index", "--find-links", str(wheels), "--no-compile"]
        _pip("install", "--no-deps", "--target", str(site), *offline, *_target(), *self._locked())

    def _locked(self) -> list[str]:
        return ["--require-hashes", "--requirement", str(self.source.lock)]

    def _export_oci(self, root: Path) -> None:
        """The file system of an OCI image, exported by the controller's own Docker."""
        import docker  # noqa: PLC0415 - only this kind needs it

        client = docker.from_env()
        try:
            client.images.get(self.source.reference)
        except docker.errors.ImageNotFound:
            client.images.pull(self.source.reference)
        container = client.containers.create(self.source.reference, "true")
        archive = self.folder / "exported.tar"
        try:
            with archive.open("wb") as file:
                for chunk in container.export():
                    file.write(cast(bytes, chunk))  # its stub says str
        finally:
            container.remove()
        exclude = ["--exclude=dev/*", "--exclude=.dockerenv"]
        _run(["tar", "-xpf", str(archive), "--numeric-owner", *exclude, "-C", str(root)])
        archive.unlink()

    def _pack(self, base: Path) -> Built:
        """Put the workloads of today into the base, and write the whole as the canonical tar."""
        tar = self.folder / f"{self.source.key}.tar"
        code = base / "opt/strata/workloads"
        self._copy_workloads(code)
        for path in (code, *code.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.chown(path, 0, 0)
        content = image.pack(base, tar)
        return Built(self.source.kind, self.source.key, content, str(tar), tar.stat().st_size)

    def _copy_workloads(self, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(self.source.workloads, target, ignore=ignored)

    def _venv(self) -> Built:
        folder = self.folder / f"venv-{self.source.base_key}"
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(folder)])
            command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            _run([*command, "--no-deps", *self._locked()])
            (folder / "ready").touch()
        code = image.tree_digest(self.source.workloads)
        self._copy_workloads(folder / "strata" / "workloads")
        content = digest([self.source.base_key, code])
        return Built("venv", self.source.key, content, str(folder), 0)

    def _prune(self, built: Built) -> None:
        """Images and bases of earlier sources go: each is over a gigabyte."""
        keep = {Path(built.path).name, f"base-{self.source.base_key}"}
        for path in self.folder.iterdir():
            if path.name in keep:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _target() -> list[str]:
    platforms = [*(f"manylinux_{version}" for version in MANYLINUX), *LEGACY]
    return [*WHEEL_TARGET, *(f"--platform={name}_x86_64" for name in platforms)]


def _pip(*arguments: str) -> None:
    _run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments])


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Refused(
            f"building the workload image failed in {Path(command[0]).name}",
            given=" ".join(command[:6]) + " …",
            then=(done.stderr or done.stdout).strip()[-1500:],
        )
