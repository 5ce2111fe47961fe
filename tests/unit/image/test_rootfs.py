"""The image's identity: one canonical tar, and proof of what a host has unpacked."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.image import rootfs as image


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
    rootfs = image.Rootfs(tmp_path / "images", "tools", digest)
    assert not rootfs.holds()
    rootfs.load(tmp_path / "x.tar")
    assert rootfs.holds()


def test_a_tampered_root_is_noticed_even_with_its_time_put_back(root: Path, tmp_path: Path) -> None:
    digest = image.pack(root, tmp_path / "x.tar")
    rootfs = image.Rootfs(tmp_path / "images", "tools", digest)
    rootfs.load(tmp_path / "x.tar")
    victim = rootfs.root / "a" / "one"
    before = victim.stat()
    victim.write_text("X")
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not rootfs.holds()


def test_a_touched_root_with_the_same_content_is_proven_anew(root: Path, tmp_path: Path) -> None:
    digest = image.pack(root, tmp_path / "x.tar")
    rootfs = image.Rootfs(tmp_path / "images", "tools", digest)
    rootfs.load(tmp_path / "x.tar")
    os.utime(rootfs.root / "a" / "one", (5, 5))
    assert rootfs.holds()


def test_an_archive_of_another_image_is_refused(root: Path, tmp_path: Path) -> None:
    image.pack(root, tmp_path / "x.tar")
    rootfs = image.Rootfs(tmp_path / "images", "tools", "0" * 64)
    with pytest.raises(Refused, match="does not unpack to image"):
        rootfs.load(tmp_path / "x.tar")
    assert list((tmp_path / "images").iterdir()) == []


def test_what_a_killed_unpacking_left_is_no_obstacle(root: Path, tmp_path: Path) -> None:
    digest = image.pack(root, tmp_path / "x.tar")
    rootfs = image.Rootfs(tmp_path / "images", "tools", digest)
    name = image.name("tools", digest)
    for left in (f".{name}.part", name):
        (tmp_path / "images" / left / "rootfs").mkdir(parents=True)
    assert not rootfs.holds()
    rootfs.load(tmp_path / "x.tar")
    assert rootfs.holds()
    assert [path.name for path in (tmp_path / "images").iterdir()] == [name]


def test_of_two_that_unpack_at_once_both_hold_it(root: Path, tmp_path: Path) -> None:
    digest = image.pack(root, tmp_path / "x.tar")
    stores = [image.Rootfs(tmp_path / "images", "tools", digest) for _ in range(3)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda store: store.load(tmp_path / "x.tar"), stores))
    assert all(store.holds() for store in stores)


def test_only_images_and_what_was_left_of_them_are_others(root: Path, tmp_path: Path) -> None:
    digest = image.pack(root, tmp_path / "x.tar")
    rootfs = image.Rootfs(tmp_path / "images", "tools", digest)
    rootfs.load(tmp_path / "x.tar")
    before, after = "tools-0123456789ab", "0123456789ab"  # a version ago families had no name
    for name in (before, after, "another-0123456789ab", ".tools-0123456789ab.part", "thesis"):
        (tmp_path / "images" / name).mkdir()
    found = rootfs.others()
    assert [Path(other).name for other in found] == [after, before, ".tools-0123456789ab.part"]
    for other in found:
        rootfs.remove(other)
    left = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert left == sorted([f"tools-{digest[:12]}", "another-0123456789ab", "thesis"])
    every = image.Rootfs(tmp_path / "images", "", "").others()
    assert [Path(other).name for other in every] == left[:1] + left[2:]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")
def test_no_other_account_can_enter_an_unpacked_image(root: Path) -> None:
    """Its programs belong to root and keep their setuid bit, and its tmp is open to everybody."""
    shutil.copy("/usr/bin/id", root / "a" / "id")
    (root / "a" / "id").chmod(0o4755)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as open_to_all:
        Path(open_to_all).chmod(0o755)
        tar = Path(open_to_all) / "x.tar"
        rootfs = image.Rootfs(Path(open_to_all) / "images", "tools", image.pack(root, tar))
        rootfs.load(tar)
        assert os.access(rootfs.root / "a/id", os.X_OK)
        # By a shell: setpriv itself still may do anything.
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"]
        for attempt in ("ls {}", "touch {}/tmp/x", "{}/a/id", "cat {}/a/one", "cd {}"):
            command = [*nobody, f"{attempt.format(rootfs.root)}; exit $?"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode != 0, attempt
            assert "ermission denied" in done.stderr or "can't cd" in done.stderr
        assert rootfs.holds()
        # One from before this was so is not taken for held.
        rootfs.folder.chmod(0o755)
        assert not rootfs.holds()


def test_what_a_killed_rsync_left_goes_unless_it_still_writes(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    left = images / ".0123456789ab.tar.Ab3dEf"
    with left.open("wb"):
        assert image.carried(tmp_path) == []
    assert image.carried(tmp_path) == [left]
