"""The workload image as a SIF, by strata_image: do, again, change, check, diff, refuse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from strata.image import rootfs
from strata.runtimes import apptainer
from strata.runtimes.apptainer.images import Sif

from tests.modules.conftest import RunModule, run_module

__all__ = ["run_module"]
pytestmark = [pytest.mark.root]


@pytest.fixture
def archive(deployed: None, tmp_path: Path) -> tuple[str, Path]:
    """With what file systems differ in: owners, modes, links, a name that is no ASCII."""
    root = tmp_path / "made"
    (root / "opt").mkdir(parents=True)
    for name, mode in (
        ("plain", 0o644),
        ("tool", 0o755),
        ("s\u00e4cret", 0o600),
        ("setuid", 0o4755),
    ):
        path = root / "opt" / name
        path.write_text(name)
        os.chown(path, 7, 9)
        path.chmod(mode)
    (root / "opt/link").symlink_to("plain")
    (root / "opt/twin").hardlink_to(root / "opt/plain")
    return rootfs.pack(root, tmp_path / "image.tar"), tmp_path / "image.tar"


@pytest.fixture
def asked(archive: tuple[str, Path], tmp_path: Path) -> dict[str, Any]:
    digest, path = archive
    image = {"family": "tools", "digest": digest, "path": str(path)}
    return {"images": [image], "state_dir": str(tmp_path / "state"), "runtimes": ["apptainer"]}


def held(asked: dict[str, Any]) -> Sif:
    store = apptainer.store(Path(asked["state_dir"]), "tools", asked["images"][0]["digest"])
    assert isinstance(store, Sif)
    return store


def test_a_sif_is_made_once_proven_and_replaced(
    run_module: RunModule, asked: dict[str, Any], tmp_path: Path
) -> None:
    digest = asked["images"][0]["digest"]
    dry = run_module("strata_image", asked, check=True, diff=True)
    assert (dry["failed"], dry["changed"]) == (False, True)
    assert not Path(asked["state_dir"]).exists()
    first = run_module("strata_image", asked)
    assert (first["changed"], first["holds"]) == (True, {"tools": {"apptainer": digest}})
    assert not run_module("strata_image", asked)["changed"]
    assert not run_module("strata_image", asked, check=True)["changed"]
    folder = held(asked).folder
    assert sorted(path.name for path in folder.rglob("*")) == ["image.sif", "known.json", "rootfs"]
    # Its dates are no longer those with which it was proven, its content is.
    os.utime(held(asked).path)
    again = run_module("strata_image", asked)
    assert (again["changed"], again["holds"]) == (False, first["holds"])

    (tmp_path / "made/opt/plain").write_text("of another commit")
    other = rootfs.pack(tmp_path / "made", tmp_path / "other.tar")
    image = {"family": "tools", "digest": other, "path": str(tmp_path / "other.tar")}
    newer = run_module("strata_image", {**asked, "images": [image]}, diff=True)
    assert newer["diff"]["before"]["others"] == [str(folder)]
    assert [path.name for path in folder.parent.iterdir()] == [f"tools-{other[:12]}"]
    gone = {"state": "absent", "state_dir": asked["state_dir"], "runtimes": ["apptainer"]}
    assert run_module("strata_image", gone)["changed"]
    assert not run_module("strata_image", gone)["changed"]


def test_a_tampered_sif_is_replaced(
    run_module: RunModule, asked: dict[str, Any], tmp_path: Path
) -> None:
    run_module("strata_image", asked)
    kept = held(asked)
    (tmp_path / "made/opt/plain").write_text("tampered")
    other = Sif(tmp_path / "elsewhere", "tools", rootfs.pack(tmp_path / "made", tmp_path / "o.tar"))
    other.load(tmp_path / "o.tar")
    kept.path.write_bytes(other.path.read_bytes())
    assert not kept.holds()
    assert run_module("strata_image", asked)["changed"]
    assert kept.holds()


def test_an_archive_of_another_image_is_refused(
    run_module: RunModule, asked: dict[str, Any]
) -> None:
    asked["images"][0]["digest"] = "0" * 64
    found = run_module("strata_image", asked)
    assert found["failed"]
    assert "does not become image 000000000000" in found["msg"]
    assert list((Path(asked["state_dir"]) / "apptainer").iterdir()) == []
