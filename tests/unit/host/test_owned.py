"""Which folders Strata takes, and what it removes from them."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.host import owned
from strata.host.owned import MARKER, Folder


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.fixture
def state(tmp_path: Path) -> Folder:
    """A claimed state folder with images in it."""
    folder = Folder(tmp_path / "state", "state")
    folder.claim()
    (folder.path / "images" / "0123").mkdir(parents=True)
    (folder.path / "images" / "0123" / "file").touch()
    return folder


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_is_empty_or_not_there_becomes_stratas_once(
    tmp_path: Path, there: bool
) -> None:
    folder = Folder(tmp_path / "above" / "state", "state")
    if there:
        folder.path.mkdir(parents=True)
    assert not folder.is_ours()
    assert folder.claim()
    assert folder.is_ours() and not folder.claim()
    assert tree(folder.path) == [MARKER]
    assert folder.remove() == []
    assert folder.path.exists() is there, "it goes when Strata made it"
    assert not there or tree(folder.path) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "/ holds '"),
        ("/etc", "/etc holds "),
        ("/etc/passwd", "Not a directory"),
        ("/etc/passwd/state", "Not a directory"),
        ("/proc/nobody", "No such file"),
        ("/" + "a" * 300, "too long"),
        ("state", "given: 'state'"),
        ("", "given: '.'"),
        ("/srv/x/../etc", "without '..'"),
    ],
)
def test_no_other_folder_becomes_stratas(path: str, words: str) -> None:
    folder = Folder(Path(path), "state")
    with pytest.raises(Refused) as refused:
        folder.claim()
    assert words in str(refused.value)
    for part in (
        "Strata's state folder must ",
        "example: strata_state_dir=/",
        "\nnext: name a new",
    ):
        assert part in str(refused.value)
    if path != "/proc/nobody":  # that it cannot be made is seen when it is made
        said = folder.describe()
        assert not said["ours"] and words in f"given: {said['refused']['given']} {refused.value}"


def newer(folder: Path) -> None:
    (folder / MARKER).write_text('{"version": 2, "kind": "state"}')


def of_a_cache(folder: Path) -> None:
    Folder(folder, "cache").claim()


def broken(folder: Path) -> None:
    (folder / MARKER).write_text('{"vers')


def strange(folder: Path) -> None:
    (folder / MARKER).write_text("[1]")


def linked(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    Folder(elsewhere, "state").claim()
    (folder / MARKER).symlink_to(elsewhere / MARKER)


def pipe(folder: Path) -> None:
    os.mkfifo(folder / MARKER)


def thesis(folder: Path) -> None:
    (folder / "thesis").touch()


def escapes(folder: Path) -> None:
    (folder / "\x1b[2J").touch()


def lost_and_found(folder: Path) -> None:
    (folder / "lost+found").mkdir()


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        (thesis, "holds 'thesis' and no marker"),
        (escapes, r"holds '\x1b[2J' and no marker"),
        (lost_and_found, "holds 'lost+found' and no marker"),
        (broken, "and no marker"),
        (strange, "and no marker"),
        (linked, "and no marker"),
        (pipe, "and no marker"),
        (newer, "was claimed by a newer Strata"),
        (of_a_cache, "is Strata's cache already"),
    ],
)
def test_what_is_in_a_folder_decides(tmp_path: Path, fill: object, words: str) -> None:
    folder = Folder(tmp_path / "folder", "state")
    folder.path.mkdir()
    fill(folder.path)  # type: ignore[operator]
    before = tree(folder.path)
    for act in (folder.is_ours, folder.claim, folder.remove, folder.let_go):
        with pytest.raises(Refused) as refused:
            act()  # type: ignore[operator]
        assert words in str(refused.value)
    assert tree(folder.path) == before
    assert folder.found() == [] or fill is newer


def test_a_link_is_refused_whatever_it_leads_to(state: Folder, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(state.path)
    with pytest.raises(Refused, match="must be a folder, and no link"):
        Folder(link, "state").remove()
    assert (state.path / "images/0123/file").exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another account's folder")
def test_a_state_folder_of_another_account_is_refused(state: Folder, tmp_path: Path) -> None:
    os.chown(state.path, 1234, 1234)
    with pytest.raises(Refused, match="must belong to the account") as refused:
        state.is_ours()
    assert "belongs to user 1234, the modules run as 0" in str(refused.value)
    cache = Folder(tmp_path / "cache", "cache")
    cache.claim()
    os.chown(cache.path, 1234, 1234)
    assert cache.is_ours(), "a cache is used with root and without"


def test_of_many_claims_at_once_all_hold(tmp_path: Path) -> None:
    for number in range(20):
        folder = Folder(tmp_path / str(number), "state")

        def use(part: str, folder: Folder = folder) -> None:
            folder.claim()
            (folder.path / part).mkdir(exist_ok=True)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(use, owned.MADE["state"] * 4))
        assert folder.is_ours()
        assert tree(folder.path) == sorted([MARKER, *owned.MADE["state"]])


def test_a_claim_that_was_killed_half_way_is_made_again_and_goes(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "cache")
    for name in (f"{MARKER}.1234.part", f".{MARKER}.1234.part.77.part"):
        (tmp_path / name).touch()
    assert folder.claim()
    folder.remove()
    assert tree(tmp_path) == []


def test_removal_goes_by_name_and_names_the_rest(state: Folder, tmp_path: Path) -> None:
    (state.path / "thesis").mkdir()
    (state.path / "thesis" / "chapter").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    (state.path / "images" / "0123" / "link").symlink_to(tmp_path / "mine")
    (state.path / "datasets").symlink_to(tmp_path / "mine")
    kept = [str(state.path / name) for name in ("datasets", "thesis")]
    assert state.found() == [str(state.path), str(state.path / "images")]
    assert state.foreign() == kept
    assert state.remove() == []
    assert state.foreign() == kept
    assert tree(state.path) == ["datasets", "thesis", "thesis/chapter"]
    assert tree(tmp_path / "mine") == ["file"]
    with pytest.raises(Refused, match="no marker"):
        state.claim()


def test_what_is_half_made_goes_with_the_whole(tmp_path: Path) -> None:
    cache = Folder(tmp_path / "cache", "cache")
    cache.claim()
    for name in ("wheels", ".wheels.lock", ".images.part", ".datasets.old.part", ".thesis.part"):
        (cache.path / name).touch()
    assert cache.remove() == []
    assert tree(cache.path) == [".thesis.part"]


def test_what_is_kept_keeps_the_marker(tmp_path: Path) -> None:
    cache = Folder(tmp_path / "cache", "cache")
    cache.claim()
    for name in owned.MADE["cache"]:
        (cache.path / name).mkdir()
    assert cache.remove(keep=["rehearsal"]) == []
    assert cache.found() == [str(cache.path), str(cache.path / "rehearsal")]
    (cache.path / "rehearsal").rmdir()
    cache.let_go()
    assert not cache.path.exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")
def test_a_disk_of_its_own_may_be_stratas_and_stays_mounted(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a disk", "state")
    folder.path.mkdir()
    with mounted(folder.path):
        (folder.path / "lost+found").mkdir()
        assert folder.claim()
        (folder.path / "images").mkdir()
        assert folder.foreign() == []
        assert folder.remove() == []
        assert tree(folder.path) == ["lost+found"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")
@pytest.mark.parametrize("bound", [False, True], ids=["a disk", "bound on its own disk"])
def test_no_other_file_system_is_entered(state: Folder, tmp_path: Path, bound: bool) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    inner = state.path / "images" / "0123" / "a mount"
    inner.mkdir()
    (state.path / "trials").mkdir()
    with mounted(inner, source if bound else None):
        (inner / "thesis").touch()
        assert state.remove() == [f"{inner}: something is mounted there"]
        assert (inner / "thesis").exists()
        assert state.found() == [str(state.path), str(state.path / "images")]
    assert state.remove() == []
    assert not state.path.exists()
    assert not bound or tree(source) == ["thesis"]


class mounted:  # noqa: N801 - a context manager
    """Something is mounted at a folder: this folder, or a file system of its own."""

    def __init__(self, at: Path, source: Path | None = None) -> None:
        what = ["--bind", str(source)] if source else ["-t", "tmpfs", "tmpfs"]
        self._command, self._at = ["mount", *what, str(at)], str(at)

    def __enter__(self) -> None:
        subprocess.run(self._command, check=True)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self._at], check=True)


def test_folders_that_were_claimed_are_known_until_they_are_given_back(
    tmp_path: Path, register: Path
) -> None:
    one, two = (Folder(tmp_path / name, "state") for name in "12")
    cache = Folder(tmp_path / "cache", "cache")
    for folder in (one, two, cache):
        folder.claim()
    assert one.elsewhere() == [str(two.path)]
    assert Folder(tmp_path / "3", "state").describe()["elsewhere"] == [str(one.path), str(two.path)]
    two.remove()
    (one.path / MARKER).unlink()  # by hand
    assert Folder(tmp_path / "3", "state").elsewhere() == []
    cache.remove()
    assert not register.exists()
    one.claim()
    for entry in register.glob("*"):
        entry.write_text("half")
    one.claim()
    assert Folder(tmp_path / "3", "state").elsewhere() == []


def test_a_marker_says_whose_it_is_and_where_to_read_on(tmp_path: Path) -> None:
    Folder(tmp_path / "x", "cache").claim()
    said = json.loads((tmp_path / "x" / MARKER).read_text())
    assert (said["kind"], said["version"], said["made"]) == ("cache", 1, True)
    assert "docs/machine.md" in said["about"]


def test_only_what_is_below_a_name_in_the_cache_may_be_removed(tmp_path: Path) -> None:
    cache = Folder(tmp_path / "cache", "cache")
    disks = cache.path / "rehearsal" / "lab" / "disks"
    owned.check_below(disks)  # not there
    disks.mkdir(parents=True)
    with pytest.raises(Refused, match="only what is in Strata's own cache"):
        owned.check_below(disks)
    (disks.parent.parent.rename(tmp_path / "aside"))
    cache.claim()
    (tmp_path / "aside").rename(cache.path / "rehearsal")
    owned.check_below(disks)
    (cache.path / "thesis").mkdir()
    with pytest.raises(Refused):
        owned.check_below(cache.path / "thesis")
