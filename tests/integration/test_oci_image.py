"""An existing OCI image is exported to the same canonical form, twice the same."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from strata.image import build
from strata.image import rootfs as image
from strata.runtimes.docker import images

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]
TAG = "strata-test/tiny:1"


@pytest.fixture
def tiny(deployed: None, tmp_path: Path) -> Iterator[str]:
    """A small image in the engine, as a user's would be."""
    path = tmp_path / "tiny.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("etc/os-release", "usr/bin/python3"):
            member = tarfile.TarInfo(name)
            member.size = 4
            tar.addfile(member, io.BytesIO(b"tiny"))
    client = docker.from_env()
    client.api.import_image(src=str(path), repository="strata-test/tiny", tag="1")
    yield TAG
    client.images.remove(TAG, force=True)
    client.close()


def test_it_is_exported_with_the_workloads(tiny: str, tmp_path: Path) -> None:
    code = tmp_path / "workloads"
    code.mkdir()
    (code / "spin.py").write_text("pass")
    source = build.Source("tools", "oci", "", [], None, code, reference=tiny)
    built = [
        build.Builder(source, tmp_path / name, export=images.export).build()
        for name in ("one", "two")
    ]
    assert built[0].digest == built[1].digest
    with tarfile.open(built[0].path) as tar:
        names = set(tar.getnames())
    assert {"usr/bin/python3", "opt/strata/workloads/spin.py", "in", "out", "data"} <= names
    rootfs = image.Rootfs(tmp_path / "state", "tools", built[0].digest)
    rootfs.load(Path(built[0].path))
    assert rootfs.holds()
