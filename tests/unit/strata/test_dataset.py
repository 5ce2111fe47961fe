"""A dataset is what its manifest says, or it is refused by the name of the file that differs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from strata import dataset
from strata.errors import Refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "flowers"
    for kind in ("rose", "tulip"):
        (made / kind).mkdir(parents=True)
        for number in range(3):
            (made / kind / f"{number}.jpg").write_bytes(f"{kind}{number}".encode())
    return made


def test_take_and_verify(folder: Path, tmp_path: Path) -> None:
    manifest = dataset.take("flowers", folder, "given")
    assert len(manifest.files) == 6
    dataset.keep(manifest, tmp_path / "m.json")
    assert dataset.read(tmp_path / "m.json") == manifest
    dataset.verify(manifest, folder, tmp_path / "receipt")
    assert (tmp_path / "receipt").exists()
    dataset.verify(manifest, folder, tmp_path / "receipt")


def test_shards_are_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "train-00000-of-00002").write_bytes(b"0")
    (tmp_path / "validation.tfrecord").write_bytes(b"1")
    assert len(dataset.take("shards", tmp_path, "given").files) == 2


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda f: (f / "rose/1.jpg").unlink(), "rose/1.jpg: it is missing"),
        (lambda f: (f / "rose/1.jpg").write_bytes(b"longer than it was"), "18 bytes, not 5"),
        (lambda f: (f / "rose/1.jpg").write_bytes(b"rosE1"), "its checksum differs"),
        (lambda f: (f / "rose/9.jpg").write_bytes(b"new"), "9.jpg: it is not in the manifest"),
    ],
)
def test_tampering_is_refused_by_name(folder: Path, tmp_path: Path, harm, words: str) -> None:
    manifest = dataset.take("flowers", folder, "given")
    dataset.verify(manifest, folder, tmp_path / "receipt")
    harm(folder)
    with pytest.raises(Refused, match="is not what its manifest says") as refused:
        dataset.verify(manifest, folder, tmp_path / "receipt")
    assert words in str(refused.value)


def test_tampering_with_the_time_put_back_is_seen(folder: Path, tmp_path: Path) -> None:
    manifest = dataset.take("flowers", folder, "given")
    dataset.verify(manifest, folder, tmp_path / "receipt")
    victim = folder / "rose/1.jpg"
    before = victim.stat()
    victim.write_bytes(b"rosE1")
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Refused, match="its checksum differs"):
        dataset.verify(manifest, folder, tmp_path / "receipt")


def test_a_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no such folder"):
        dataset.listing(tmp_path / "nowhere")
    with pytest.raises(Refused, match="class folders with JPEGs"):
        dataset.listing(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(Refused, match="manifest cannot be read, or was changed"):
        dataset.read(tmp_path / "m.json")


def test_a_manifest_whose_checksums_were_edited_is_refused(folder: Path, tmp_path: Path) -> None:
    dataset.keep(dataset.take("flowers", folder, "given"), tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    (tmp_path / "m.json").write_text(text.replace("rose/0.jpg", "rose/8.jpg"))
    with pytest.raises(Refused, match="was changed"):
        dataset.read(tmp_path / "m.json")
