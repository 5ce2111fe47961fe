"""The image's identity: one canonical tar, and proof of what a host has unpacked."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from strata import build, host, image
from strata.errors import Refused


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    (made / "a" / "deep").mkdir(parents=True)
    (made / "a" / "one").write_text("1")
    (made / "a.txt").write_text("sorts between a and a/")
    (made / "a" / "deep" / "two").write_bytes(os.urandom(5000))
    (made / "link").symlink_to("a/one")
    return made


def test_the_digest_is_of_content_and_not_of_time(root: Path, tmp_path: Path) -> None:
    first = image.pack(root, tmp_path / "1.tar")
    os.utime(root / "a" / "one", (1, 1))
    assert image.pack(root, tmp_path / "2.tar") == first
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    assert image.pack(root, None) == first
    (root / "a" / "one").write_text("2")
    assert image.pack(root, None) != first


def test_modes_and_links_count(root: Path) -> None:
    first = image.pack(root, None)
    (root / "a" / "one").chmod(0o755)
    changed = image.pack(root, None)
    (root / "link").unlink()
    (root / "link").symlink_to("a.txt")
    assert len({first, changed, image.pack(root, None)}) == 3


def test_what_is_unpacked_packs_to_the_same(root: Path, tmp_path: Path) -> None:
    digest = image.pack(root, tmp_path / "x.tar")
    with tarfile.open(tmp_path / "x.tar") as tar:
        assert tar.getnames() == ["a", "a.txt", "link", "a/deep", "a/one", "a/deep/two"]
    rootfs = image.Rootfs(tmp_path / "images", digest)
    assert not rootfs.holds()
    rootfs.load(tmp_path / "x.tar")
    assert rootfs.holds()


def test_a_tampered_root_is_noticed_even_with_its_time_put_back(root: Path, tmp_path: Path) -> None:
    digest = image.pack(root, tmp_path / "x.tar")
    rootfs = image.Rootfs(tmp_path / "images", digest)
    rootfs.load(tmp_path / "x.tar")
    victim = rootfs.root / "a" / "one"
    before = victim.stat()
    victim.write_text("X")
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not rootfs.holds()


def test_a_touched_root_with_the_same_content_is_proven_anew(root: Path, tmp_path: Path) -> None:
    digest = image.pack(root, tmp_path / "x.tar")
    rootfs = image.Rootfs(tmp_path / "images", digest)
    rootfs.load(tmp_path / "x.tar")
    os.utime(rootfs.root / "a" / "one", (5, 5))
    assert rootfs.holds()


def test_an_archive_of_another_image_is_refused(root: Path, tmp_path: Path) -> None:
    image.pack(root, tmp_path / "x.tar")
    rootfs = image.Rootfs(tmp_path / "images", "0" * 64)
    with pytest.raises(Refused, match="does not unpack to image"):
        rootfs.load(tmp_path / "x.tar")
    assert not rootfs.folder.exists()


def test_the_source_names_the_image_before_it_is_built(tmp_path: Path) -> None:
    lock, code = tmp_path / "lock", tmp_path / "code"
    lock.write_text("a==1")
    code.mkdir()
    (code / "w.py").write_text("1")

    def key(**changes: object) -> str:
        given = {"kind": "rootfs", "suite": "s", "packages": ["p"], "lock": lock, "workloads": code}
        return build.Source(**{**given, **changes}).key  # type: ignore[arg-type]

    first = key()
    assert key() == first
    assert key(packages=["q"]) != first
    (code / "w.py").write_text("2")
    assert key() != first
    (code / "notes.txt").write_text("not code")
    again = key()
    lock.write_text("a==2")
    assert key() != again


def test_an_engine_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(path: str, timeout: float) -> bytes:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(host, "docker_ask", silent)
    with pytest.raises(Refused, match=r"(?s)the Docker engine of this host answers.*refused.*log"):
        image.DockerImage("0" * 64).holds()
