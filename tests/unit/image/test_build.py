"""The image of the same sources is the same from every folder, and its key says what it is of."""

from __future__ import annotations

import hashlib
import os
import socket
import zipfile
from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused
from strata.host import lease, making, uses
from strata.image import build, rootfs

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="the files of an image belong to root")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "folder", lambda: tmp_path / "run")


def source(folder: Path, **changes: Any) -> build.Source:
    """Of one workload, with one wheel."""
    (folder / "code/inner").mkdir(parents=True, exist_ok=True)
    lock = folder / "lock"
    for path, text in (
        (lock, "a==1"),
        (folder / "code/w.py", "1"),
        (folder / "code/inner/v.py", "2"),
    ):
        if not path.exists():
            path.write_text(text)
    given = {"family": "toys", "kind": "rootfs", "suite": "s", "packages": ["p"], "lock": lock}
    return build.Source(**{**given, "workloads": folder / "code", **changes})


def test_the_source_names_the_image_before_it_is_built(tmp_path: Path) -> None:
    first = source(tmp_path).key
    assert source(tmp_path).key == first
    assert source(tmp_path, packages=["q"]).key != first
    (tmp_path / "code/w.py").write_text("2")
    second = source(tmp_path).key
    assert second != first
    (tmp_path / "lock").write_text("a==2")
    assert source(tmp_path).key != second


@pytest.mark.parametrize("reference", ["", " "])
def test_an_oci_image_without_a_reference_is_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(Refused, match=r"(?s)needs its reference.*example.*given.*next"):
        source(tmp_path, kind="oci", reference=reference)


def test_a_virtual_environment_has_no_packages_of_the_distribution(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"(?s)none of the distribution.*the image family toys.*p"):
        source(tmp_path, kind="venv")


class Small(build.Builder):
    """A base of a few files instead of a distribution's. Everything else is the real thing."""

    def _fill_base(self, aside: making.Aside) -> None:
        root = aside.folder / build.ROOT
        site = root / build.SITE / "a-1.dist-info"
        site.mkdir(parents=True)
        (site / "METADATA").write_text("Name: a")
        (root / "etc/apt").mkdir(parents=True)
        (root / "var/log/apt").mkdir(parents=True)
        here = str(self.folder)  # as a name of the machine, or the mirror: another one elsewhere
        for name in ("etc/hostname", "etc/resolv.conf", "etc/apt/sources.list", "var/log/apt/x"):
            (root / name).write_text(here)
        for name in ("RECORD", "INSTALLER", "REQUESTED"):
            (site / name).write_text(here)
        build._finish(root)


def wheel(folder: Path) -> Path:
    """Of a module and of a library beside it, as MPICH's is."""
    folder.mkdir(parents=True)
    path, told = folder / "toy-1.0-py3-none-any.whl", "toy-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy.py", "")
        archive.writestr("toy-1.0.data/data/lib/deep/libtoy.so", "code")
        archive.writestr(f"{told}/METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        archive.writestr(f"{told}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{told}/RECORD", "")
    return path


def test_libraries_of_a_wheel_are_installed_beside_the_packages(tmp_path: Path) -> None:
    content = hashlib.sha256(wheel(tmp_path / "cache/wheels").read_bytes()).hexdigest()
    (tmp_path / "lock").write_text(f"toy==1.0 --hash=sha256:{content}")
    builder, site = build.Builder(source(tmp_path), tmp_path / "cache"), tmp_path / "site"
    with making.making(tmp_path / "made", "test") as aside:
        builder._install(aside, site)
    assert (site / "toy.py").exists()
    assert (site / "lib/deep/libtoy.so").read_text() == "code"


@ROOT
def test_two_checkouts_build_the_same(tmp_path: Path) -> None:
    """Whatever the user's umask, and whatever else lies in the folders."""
    built = []
    for name, umask in (("one", 0o022), ("two", 0o077), ("three", 0o002)):
        before = os.umask(umask)
        try:
            made = source(tmp_path / name)
            (tmp_path / name / "code" / f"{name}.txt").write_text("no source")
            (tmp_path / name / "code" / f".{name}.py.swp").write_text("no source")
            (tmp_path / name / "code/w.py").chmod(0o700)
            built.append(Small(made, tmp_path / name / "cache").build())
            assert os.umask(umask) == umask
        finally:
            os.umask(before)
    assert len({(one.key, one.digest) for one in built}) == 1
    assert len({Path(one.path).read_bytes() for one in built}) == 1


@ROOT
def test_it_is_built_once_and_found_where_the_cache_is(tmp_path: Path) -> None:
    builder = Small(source(tmp_path), tmp_path / "cache")
    assert builder.built() is None
    built = builder.build()
    assert builder.built() == built
    (tmp_path / "cache").rename(tmp_path / "moved")
    moved = Small(source(tmp_path), tmp_path / "moved").built()
    assert moved is not None and Path(moved.path).exists()
    assert moved.digest == built.digest
    Path(moved.path).write_bytes(b"cut")
    assert Small(source(tmp_path), tmp_path / "moved").built() is None


@ROOT
def test_an_image_is_kept_while_a_run_uses_it(tmp_path: Path) -> None:
    me = os.getpid()
    holder = {"host": socket.gethostname(), "pid": me, "start": lease.start_time(me)}
    cache = tmp_path / "cache"
    first = Small(source(tmp_path), cache)
    first.use(holder)
    first.build()
    (tmp_path / "lock").write_text("a==2")
    second = Small(source(tmp_path), cache)
    second.build()
    (cache / "images/thesis").mkdir()
    for name in ("0123456789ab.tar", "distribution.tar"):  # of earlier versions
        (cache / "images" / name).touch()
    of_another_family = {"tools-0123456789ab", "tools-base-0123456789ab"}
    for name in (".base-0123456789ab.part", *of_another_family):
        (cache / "images" / name).mkdir()
    others = ["0123456789ab.tar", "distribution.tar", ".base-0123456789ab.part"]
    assert [path.name for path in second.superfluous()] == others
    uses.forget_dead()
    for entry in (tmp_path / "run/uses").iterdir():
        entry.unlink()
    unused = {path.name for path in second.superfluous()}
    assert unused == {first.path.name, first.base.name, *others}
    for path in second.superfluous():
        making.clear(path)
    left = {path.name for path in (cache / "images").iterdir()}
    assert left == {second.path.name, second.base.name, "thesis", *of_another_family}
    assert second.built() is not None


def test_a_virtual_environment_has_the_workloads_of_its_checkout(tmp_path: Path) -> None:
    """Two checkouts share the environment, and neither changes the code of the other's trials."""
    found = []
    for name in ("one", "two"):
        made = source(tmp_path / name, kind="venv", packages=[], lock=tmp_path / "lock")
        (tmp_path / "lock").write_text("")
        (tmp_path / name / "code/w.py").write_text(name)
        found.append(build.Builder(made, tmp_path / "cache").build())
    assert found[0].digest != found[1].digest
    for name, built in zip(("one", "two"), found, strict=True):
        assert (Path(built.path) / "strata/workloads/w.py").read_text() == name
        assert (
            rootfs.held("toys", "venv", built.digest, tmp_path, built.path)["rootfs"] == built.path
        )


def test_what_lies_in_a_folder_that_is_not_stratas_is_no_image(tmp_path: Path) -> None:
    mine = tmp_path / "cache/images/0123456789ab"
    mine.mkdir(parents=True)
    small = Small(source(tmp_path), tmp_path / "cache")
    for act in (small.superfluous, small.build):
        with pytest.raises(Refused, match="Strata's cache must be a new folder"):
            act()
    assert [path.name for path in mine.parent.iterdir()] == [mine.name]
