"""What a cluster is made of: one manifest, its locks, and the archives that are made of it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused

from tests.conftest import REPO
from tools import kubernetes_offline as offline

MANIFESTS: dict[str, Any] = {bundle: offline.read(bundle) for bundle in offline.BUNDLES}
MANIFEST = MANIFESTS["kubernetes"]
MODULES = {
    name: part for manifest in MANIFESTS.values() for name, part in manifest["modules"].items()
}


def images_of(manifest: dict[str, Any]) -> dict[str, Any]:
    return {image["name"]: image for images in manifest["archives"].values() for image in images}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_locked_in_the_version_that_is_asked_for(name: str) -> None:
    part = MODULES[name]
    required = (offline.LOCKS / f"{name}.mod").read_text().split()
    assert required[required.index(part["module"]) + 1] == part["version"]
    sums = (offline.LOCKS / f"{name}.sum").read_text()
    assert f"{part['module']} {part['version']} h1:" in sums


def test_no_lock_is_left_of_what_is_no_longer_asked_for() -> None:
    assert {path.stem for path in offline.LOCKS.iterdir()} == set(MODULES)


@pytest.mark.parametrize("bundle", MANIFESTS)
def test_everything_in_an_image_is_made_and_the_other_way_round(bundle: str) -> None:
    manifest = MANIFESTS[bundle]
    made = {
        Path(place).name
        for part in manifest["modules"].values()
        for place in (*part["programs"], *part.get("compiled", {}), *part.get("copied", {}))
        if place.startswith("image/")
    }
    images = images_of(manifest).values()
    held = {file for image in images for file in image["files"].values()}
    held |= {name for image in images for name in image.get("folders", {}).values()}
    assert held == made


def test_versions_that_stand_twice_agree() -> None:
    version, images = f"v{MANIFEST['version']}", images_of(MANIFEST)
    kubernetes = MODULES["kubernetes"]
    assert kubernetes["version"] == kubernetes["stamp"]["as"]["gitVersion"] == version
    assert {images[f"kube-{name}"]["tag"] for name in ("apiserver", "proxy", "scheduler")} == {
        version
    }
    told = MANIFEST["offline"]["images"]
    registry = told["kubernetes"]
    assert {manifest["registry"] for manifest in MANIFESTS.values()} == {registry}
    for name in ("pause", "flannel"):
        assert told[name] == f"{registry}/{name}:{images[name]['tag']}"
    assert told["dns_tag"] == images["coredns"]["tag"] == MODULES["coredns"]["version"]
    assert MANIFEST["online"]["revision"].startswith(f"{MANIFEST['version']}-")


def test_a_folder_is_named_by_the_manifest_as_the_role_names_it(tmp_path: Path) -> None:
    text = (REPO / "requirements/cilium.yml").read_bytes()
    expected = hashlib.sha256(text).hexdigest()[:12]
    assert offline.folder(tmp_path, "cilium") == tmp_path / "kubernetes" / expected
    with pytest.raises(Refused, match="name one of kubernetes, calico, cilium"):
        offline.folder(tmp_path, "weave")


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
    image |= {"folders": {"/lib/bpf": "bpf"}, "links": {"/sleep": "pause"}, "texts": {"/a": "text"}}
    (tmp_path / "image/bpf/include").mkdir(parents=True)
    (tmp_path / "image/bpf/include/file.h").write_bytes(b"source")
    aside = offline.Aside(tmp_path, tmp_path, 0)
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        said = offline.image_of(aside, archive, image, base, "here", "amd64")
    with tarfile.open(tmp_path / "all.tar") as archive:
        config = json.load(archive.extractfile(said["Config"]))  # type: ignore[arg-type]
        layers = [archive.extractfile(name).read() for name in said["Layers"]]  # type: ignore[union-attr]
    with tarfile.open(fileobj=io.BytesIO(layers[1])) as layer:
        files = {entry.name: entry for entry in layer}
        assert files["sleep"].linkname == "pause"
        assert layer.extractfile("lib/bpf/include/file.h").read() == b"source"  # type: ignore[union-attr]
    assert files["a"].mode == files["pause"].mode == 0o755
    assert said["RepoTags"] == ["here/pause:1"]
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    assert config["rootfs"]["diff_ids"] == digests
    assert config["config"]["Entrypoint"] == ["/pause"]


def test_a_source_is_changed_where_it_is_as_expected_and_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    (kept / "vendor").mkdir(parents=True)
    (kept / "a.go").write_text("one two")
    (tmp_path / "go.mod").write_text("module lab\n")
    monkeypatch.setattr(offline, "_download", lambda _: {"Dir": str(kept)})
    change = {"file": "a.go", "old": "two", "new": "three"}
    offline.edit(tmp_path, {"module": "example.org/a", "edited": [change]})
    assert (tmp_path / "source/a.go").read_text() == "one three"
    assert (kept / "a.go").read_text() == "one two"
    assert not (tmp_path / "source/vendor").exists()
    assert (tmp_path / "go.mod").read_text().endswith("replace example.org/a => ./source\n")
    (kept / "a.go").write_text("two two")
    with pytest.raises(Refused, match=r"given: 2 times in a\.go"):
        offline.edit(tmp_path / "again", {"module": "example.org/a", "edited": [change]})
