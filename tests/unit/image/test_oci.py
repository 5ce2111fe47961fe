"""The image for a registry: its digest there follows from its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from strata.image import oci


def test_the_layer_is_the_images_own_tar(tmp_path: Path) -> None:
    tar = tmp_path / "tools.tar"
    tar.write_bytes(b"layer")
    content = hashlib.sha256(b"layer").hexdigest()
    digest = oci.layout(tar, content, tmp_path / "layout")
    blobs = tmp_path / "layout/blobs/sha256"
    for path in blobs.iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    (listed,) = json.loads((tmp_path / "layout/index.json").read_text())["manifests"]
    assert listed["digest"] == f"sha256:{digest}"
    manifest = json.loads((blobs / digest).read_text())
    (layer,) = manifest["layers"]
    assert layer["digest"] == f"sha256:{content}" and layer["mediaType"].endswith("layer.v1.tar")
    config = json.loads((blobs / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
    assert config["rootfs"]["diff_ids"] == [f"sha256:{content}"]
    assert oci.layout(tar, content, tmp_path / "again") == digest
