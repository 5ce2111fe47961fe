"""What a cluster is made of: one manifest, its locks, and the archives that are made of it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import kubernetes_offline as offline

MANIFEST: dict[str, Any] = yaml.safe_load(offline.MANIFEST.read_text())
MODULES: dict[str, Any] = MANIFEST["modules"]
IMAGES = {image["name"]: image for images in MANIFEST["archives"].values() for image in images}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_locked_in_the_version_that_is_asked_for(name: str) -> None:
    part = MODULES[name]
    required = (offline.LOCKS / f"{name}.mod").read_text().split()
    assert required[required.index(part["module"]) + 1] == part["version"]
    sums = (offline.LOCKS / f"{name}.sum").read_text()
    assert f"{part['module']} {part['version']} h1:" in sums


def test_no_lock_is_left_of_what_is_no_longer_asked_for() -> None:
    assert {path.stem for path in offline.LOCKS.iterdir()} == set(MODULES)


def test_every_program_of_an_image_is_built() -> None:
    built = {
        Path(place).name
        for part in MODULES.values()
        for place in (*part["programs"], *part.get("compiled", {}))
        if place.startswith("image/")
    }
    assert {file for image in IMAGES.values() for file in image["files"].values()} == built


def test_versions_that_stand_twice_agree() -> None:
    version = f"v{MANIFEST['version']}"
    kubernetes = MODULES["kubernetes"]
    assert kubernetes["version"] == kubernetes["stamp"]["as"]["gitVersion"] == version
    assert {IMAGES[f"kube-{name}"]["tag"] for name in ("apiserver", "proxy", "scheduler")} == {
        version
    }
    told = MANIFEST["offline"]["images"]
    registry = told["kubernetes"]
    for name in ("pause", "flannel"):
        assert told[name] == f"{registry}/{name}:{IMAGES[name]['tag']}"
    assert told["dns_tag"] == IMAGES["coredns"]["tag"] == MODULES["coredns"]["version"]
    assert MANIFEST["online"]["revision"].startswith(f"{MANIFEST['version']}-")


def test_the_folder_is_named_by_the_manifest_as_the_role_names_it(tmp_path: Path) -> None:
    expected = hashlib.sha256(offline.MANIFEST.read_bytes()).hexdigest()[:12]
    assert offline.folder(tmp_path) == tmp_path / "kubernetes" / expected


def test_what_is_made_is_noted_with_its_checksum(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubelet").write_bytes(b"program")
    offline.note(tmp_path)
    digest = hashlib.sha256(b"program").hexdigest()
    assert (tmp_path / offline.SUMS).read_text() == f"{digest}  bin/kubelet\n"


def test_an_image_is_an_archive_whose_layers_have_the_digests_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image/pause").write_bytes(b"program")
    base = tmp_path / "base.tar"
    with tarfile.open(base, "w"):
        pass
    image = {"name": "pause", "tag": "1", "base": True, "files": {"/pause": "pause"}}
    image["entrypoint"] = ["/pause"]
    aside = offline.Aside(tmp_path, tmp_path, 0)
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        said = offline.image_of(aside, archive, image, base, "here", "amd64")
    with tarfile.open(tmp_path / "all.tar") as archive:
        config = json.load(archive.extractfile(said["Config"]))  # type: ignore[arg-type]
        layers = [archive.extractfile(name).read() for name in said["Layers"]]  # type: ignore[union-attr]
    assert said["RepoTags"] == ["here/pause:1"]
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    assert config["rootfs"]["diff_ids"] == digests
    assert config["config"]["Entrypoint"] == ["/pause"]
