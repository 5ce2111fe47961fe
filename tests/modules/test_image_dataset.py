"""strata_image and strata_dataset through real Ansible: do, again, change, check, diff, refuse."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from strata.host import lease
from strata.host.owned import Folder
from strata.image import rootfs

from tests.modules.conftest import RunModule


@pytest.fixture
def archive(tmp_path: Path) -> tuple[str, Path]:
    root = tmp_path / "made"
    (root / "opt").mkdir(parents=True)
    (root / "opt" / "file").write_text("content")
    tar = tmp_path / "image.tar"
    return rootfs.pack(root, tar), tar


def image(digest: str, path: Path | str, family: str = "tools") -> dict[str, str]:
    return {"family": family, "digest": digest, "path": str(path)}


@pytest.fixture
def asked(archive: tuple[str, Path], tmp_path: Path) -> dict[str, Any]:
    return {"images": [image(*archive)], "state_dir": str(tmp_path / "state")}


@pytest.fixture
def other(archive: tuple[str, Path], tmp_path: Path) -> tuple[str, Path]:
    """Another image: its digest and its archive."""
    (tmp_path / "made/opt/file").write_text("of another commit")
    return rootfs.pack(tmp_path / "made", tmp_path / "other.tar"), tmp_path / "other.tar"


def folder(asked: dict[str, Any]) -> Path:
    return Path(asked["state_dir"]) / "images"


def names(asked: dict[str, Any]) -> list[str]:
    """The images that the host holds, and whatever else lies there."""
    return sorted(path.name for path in folder(asked).iterdir())


def test_an_image_is_unpacked_once(
    run_module: RunModule, asked: dict[str, Any], archive: tuple[str, Path]
) -> None:
    dry = run_module("strata_image", asked, check=True, diff=True)
    assert (dry["failed"], dry["changed"]) == (False, True)
    assert dry["holds"] == {"tools": {"native": ""}}
    assert not Path(asked["state_dir"]).exists()
    first = run_module("strata_image", asked)
    assert (first["changed"], first["holds"]) == (True, {"tools": {"native": archive[0]}})
    held = first["images"]["tools"]
    assert (Path(held["rootfs"]) / "opt/file").read_text() == "content"
    assert set(held) == {"family", "kind", "digest", "rootfs"}
    again = run_module("strata_image", asked)
    assert (again["changed"], again["holds"]) == (False, first["holds"])
    assert not run_module("strata_image", asked, check=True)["changed"]


def test_a_host_holds_the_image_of_each_family(
    run_module: RunModule,
    asked: dict[str, Any],
    archive: tuple[str, Path],
    other: tuple[str, Path],
) -> None:
    """And keeps those of families that are not asked for, until a newer one of their own."""
    both = {**asked, "images": [image(*archive), image(*other, "jax")]}
    first = run_module("strata_image", both)
    assert {family: held["digest"] for family, held in first["images"].items()} == {
        "tools": archive[0],
        "jax": other[0],
    }
    assert not run_module("strata_image", both)["changed"]
    assert not run_module("strata_image", both, check=True)["changed"]
    assert not run_module("strata_image", asked)["changed"], "the other family's stays"
    newer = {**asked, "images": [image(*archive, "jax")]}
    assert run_module("strata_image", newer)["changed"]
    assert names(asked) == [f"jax-{archive[0][:12]}", f"tools-{archive[0][:12]}"]


def test_a_tampered_image_is_replaced(run_module: RunModule, asked: dict[str, Any]) -> None:
    first = run_module("strata_image", asked)
    victim = Path(first["images"]["tools"]["rootfs"]) / "opt/file"
    victim.write_text("tampered")
    assert run_module("strata_image", asked)["changed"]
    assert victim.read_text() == "content"


def test_another_image_goes_when_no_run_uses_it_and_absent_removes_all(
    run_module: RunModule,
    asked: dict[str, Any],
    archive: tuple[str, Path],
    other: tuple[str, Path],
) -> None:
    with subprocess.Popen(["sleep", "600"]) as run:
        holder = {"host": socket.gethostname(), "pid": run.pid, "start": lease.start_time(run.pid)}
        first = run_module("strata_image", {**asked, "images": [image(*other)], "holder": holder})
        assert run_module("strata_image", asked)["changed"]
        assert not run_module("strata_image", asked)["changed"]
        of_a_run = Path(first["images"]["tools"]["rootfs"])
        assert of_a_run.exists()
        run.kill()
    left = folder(asked) / ".tools-0123456789ab.part"
    left.mkdir()
    found = run_module("strata_image", asked, diff=True)
    assert found["changed"]
    assert found["diff"]["before"]["others"] == sorted([str(of_a_run.parent), str(left)])
    assert names(asked) == [f"tools-{archive[0][:12]}"]
    gone = {"state": "absent", "state_dir": asked["state_dir"]}
    assert run_module("strata_image", gone)["changed"]
    assert names(asked) == []
    assert not run_module("strata_image", gone)["changed"]


def test_an_environment_is_where_it_was_made(
    run_module: RunModule, asked: dict[str, Any], tmp_path: Path
) -> None:
    environment = str(tmp_path / "venv")
    given = {**asked, "images": [{**image("0" * 64, environment), "kind": "venv"}]}
    refused = run_module("strata_image", given)
    assert refused["failed"] and "sees a virtual environment" in refused["msg"]
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").touch()
    found = run_module("strata_image", given)
    assert (found["changed"], found["archives_needed"], found["holds"]) == (False, [], {})
    held = found["images"]["tools"]
    assert (held["kind"], held["rootfs"]) == ("venv", environment)


def test_a_host_without_the_archive_asks_for_it(
    run_module: RunModule, asked: dict[str, Any], archive: tuple[str, Path]
) -> None:
    """And nothing is done before it is there."""
    of_another = folder(asked) / "tools-0123456789ab.tar"
    Folder(Path(asked["state_dir"]), "state").claim()
    of_another.parent.mkdir()
    of_another.touch()
    found = run_module("strata_image", {**asked, "carried": True})
    assert (found["failed"], found["changed"]) == (False, False)
    there = str(folder(asked) / f"tools-{archive[0][:12]}.tar")
    assert found["archives_needed"] == [{"path": str(archive[1]), "carried": there}]
    assert of_another.exists()


def test_what_an_image_was_carried_in_goes_once_it_is_held(
    run_module: RunModule, asked: dict[str, Any], archive: tuple[str, Path]
) -> None:
    digest, tar = archive
    carried = folder(asked) / f"tools-{digest[:12]}.tar"
    Folder(Path(asked["state_dir"]), "state").claim()
    carried.parent.mkdir()
    shutil.copy(tar, carried)
    of_another = carried.with_name("0123456789ab.tar")
    of_another.touch()
    first = run_module("strata_image", {**asked, "carried": True})
    assert (first["changed"], first["holds"]) == (True, {"tools": {"native": digest}})
    assert names(asked) == [f"tools-{digest[:12]}"]
    # A run that was killed in between left it behind.
    shutil.copy(tar, carried)
    dry = run_module("strata_image", asked, check=True, diff=True)
    assert dry["changed"] and carried.exists()
    assert run_module("strata_image", asked)["changed"]
    assert not carried.exists()


@pytest.mark.parametrize(("state", "check"), [("present", True), ("absent", False)])
def test_images_in_a_folder_that_is_not_stratas_are_left_alone(
    run_module: RunModule, asked: dict[str, Any], state: str, check: bool
) -> None:
    holiday = folder(asked) / "holiday"
    holiday.mkdir(parents=True)
    refused = run_module("strata_image", {**asked, "state": state}, check=check)
    assert refused["failed"]
    assert "holds 'images' and no marker of Strata's" in refused["msg"]
    assert holiday.exists()


def test_an_archive_of_another_image_is_refused(
    run_module: RunModule, asked: dict[str, Any], archive: tuple[str, Path]
) -> None:
    found = run_module("strata_image", {**asked, "images": [image("0" * 64, archive[1])]})
    assert found["failed"]
    assert "does not unpack to image 000000000000" in found["msg"]


@pytest.fixture
def flowers(tmp_path: Path) -> dict[str, Any]:
    for name in ("rose/1.jpg", "tulip/1.jpg"):
        path = tmp_path / "flowers" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(name.encode())
    folder = str(tmp_path / "flowers")
    return {"name": "flowers", "path": folder, "manifest": str(tmp_path / "flowers.json")}


def test_a_dataset_is_described_once_and_then_proven(
    run_module: RunModule, flowers: dict[str, Any]
) -> None:
    dry = run_module("strata_dataset", flowers, check=True)
    assert dry["changed"]
    assert not Path(flowers["manifest"]).exists()
    first = run_module("strata_dataset", flowers, diff=True)
    assert first["changed"]
    assert (first["dataset"]["files"], first["dataset"]["origin"]) == (2, "given")
    again = run_module("strata_dataset", flowers)
    assert (again["changed"], again["dataset"]) == (False, first["dataset"])


def test_a_tampered_dataset_is_refused_by_name(
    run_module: RunModule, flowers: dict[str, Any]
) -> None:
    run_module("strata_dataset", flowers)
    (Path(flowers["path"]) / "rose/1.jpg").write_bytes(b"rose/2.jpg")
    for check in (False, True):
        found = run_module("strata_dataset", flowers, check=check)
        assert found["failed"]
        assert "rose/1.jpg: its checksum differs" in found["msg"]


def test_a_missing_dataset_is_refused(run_module: RunModule, flowers: dict[str, Any]) -> None:
    found = run_module("strata_dataset", {**flowers, "path": "/nowhere"})
    assert found["failed"]
    assert "there is no such folder" in found["msg"]


def test_a_copy_takes_the_place_of_the_one_before(
    run_module: RunModule, flowers: dict[str, Any]
) -> None:
    before = Path(flowers["path"]).with_name("flowers-0123456789ab")
    before.mkdir()
    dry = run_module("strata_dataset", flowers, check=True)
    assert dry["changed"] and before.exists()
    assert run_module("strata_dataset", flowers)["changed"]
    assert not before.exists()
    names = Path(flowers["manifest"]).with_suffix(".files").read_bytes()
    assert names == b"rose/1.jpg\0tulip/1.jpg\0"


def test_a_pipe_is_refused_and_not_waited_for(
    run_module: RunModule, flowers: dict[str, Any]
) -> None:
    os.mkfifo(Path(flowers["path"]) / "rose/2.jpg")
    found = run_module("strata_dataset", flowers)
    assert found["failed"]
    assert "rose/2.jpg: a folder, a pipe" in found["msg"]


def test_check_mode_generates_nothing(run_module: RunModule, flowers: dict[str, Any]) -> None:
    made = {"workload": "make_images", "options": {"images": 2}}
    new = {**flowers, "path": flowers["path"] + "-new", "generate": made, "image": {}}
    found = run_module("strata_dataset", new, check=True)
    assert (found["failed"], found["changed"]) == (False, True)
    assert not Path(new["path"]).exists()
