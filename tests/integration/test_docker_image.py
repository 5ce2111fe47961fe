"""The workload image in a real engine: imported, proven, told from another with its name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from strata.image import rootfs
from strata.runtimes.docker import images

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]


def tar_of(folder: Path, content: str) -> tuple[str, Path]:
    """An image of one file: its digest and its tar."""
    root = folder / content
    root.mkdir()
    (root / "file").write_text(content)
    path = folder / f"{content}.tar"
    return rootfs.pack(root, path), path


@pytest.fixture
def held(deployed: None, tmp_path: Path) -> Iterator[tuple[images.DockerImage, Path]]:
    content, path = tar_of(tmp_path, "one")
    kept = images.DockerImage("tools", content)
    yield kept, path
    if kept.reference in images.DockerImage("tools", "0" * 64).others():
        kept.remove(kept.reference)


def test_it_is_proven_after_the_import_and_gone_after_the_removal(
    held: tuple[images.DockerImage, Path],
) -> None:
    kept, path = held
    assert not kept.holds()
    kept.load(path)
    assert kept.holds()
    assert kept.reference not in kept.others()
    assert kept.reference in images.DockerImage("tools", "0" * 64).others()
    assert kept.reference in images.DockerImage("", "").others(), "of all families"
    assert kept.reference not in images.DockerImage("another", "0" * 64).others()
    kept.remove(kept.reference)
    assert not kept.holds()


def test_another_image_with_its_name_is_none(
    held: tuple[images.DockerImage, Path], tmp_path: Path
) -> None:
    kept, path = held
    _, other = tar_of(tmp_path, "two")
    repository, tag = kept.reference.split(":")
    with contextlib.closing(docker.from_env()) as client:
        client.api.import_image(src=str(other), repository=repository, tag=tag)
    assert not kept.holds()
    kept.load(path)
    assert kept.holds()
