"""A dataset is what its manifest says, or it is refused by the name of the file that differs."""

from __future__ import annotations

import json
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.host import lease, uses
from strata.image import dataset
from strata.trial import generate


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
    shards = tmp_path / "shards"
    shards.mkdir()
    (shards / "train-00000-of-00002").write_bytes(b"0")
    (shards / "validation.tfrecord").write_bytes(b"1")
    assert len(dataset.take("shards", shards, "given").files) == 2


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
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match="class folders with JPEGs"):
        dataset.listing(tmp_path / "empty")


def loop(folder: Path) -> None:
    (folder / "rose/8.jpg").symlink_to("9.jpg")
    (folder / "rose/9.jpg").symlink_to("8.jpg")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda f: os.mkfifo(f / "rose/9.jpg"), "rose/9.jpg: a folder, a pipe"),
        (lambda f: os.mkfifo(f / "train.tfrecord"), "train.tfrecord: a folder, a pipe"),
        (lambda f: (f / "rose/9.jpg").mkdir(), "rose/9.jpg: a folder"),
        (loop, "jpg -> "),
        (lambda f: (f / "all").symlink_to("all"), "all -> all"),
        (lambda f: (f / "rose/9.jpg").symlink_to("gone"), "9.jpg -> gone"),
        (lambda f: (f / "rose/9.jpg").symlink_to("/etc/passwd"), "9.jpg -> /etc/passwd"),
        (lambda f: (f / "rose/9.jpg").symlink_to("../../x"), "9.jpg -> ../../x"),
        (lambda f: (f / "rose/1.jpg").chmod(0), "rose/1.jpg: mode 0, owner "),
        (lambda f: (f / "rose").chmod(0), "rose: mode 0, owner "),
        (lambda f: f.chmod(0), "flowers: mode 0, owner "),
    ],
)
@pytest.mark.parametrize("reads", [dataset.listing, lambda f: dataset.take("x", f, "given")])
def test_what_a_trial_cannot_read_is_refused_and_never_opened(
    folder: Path, tmp_path: Path, reads, harm, words: str
) -> None:
    (tmp_path / "x").write_text("outside of the dataset")
    harm(folder)
    with pytest.raises(Refused) as refused:
        reads(folder)
    assert words in str(refused.value)
    assert "\nexample: " in str(refused.value) and "\nnext: " in str(refused.value)


def test_a_link_within_a_dataset_is_one_of_its_files(folder: Path) -> None:
    (folder / "rose/9.jpg").symlink_to("../tulip/1.jpg")
    (folder / "more").symlink_to("rose")
    assert len(dataset.take("flowers", folder, "given").files) == 11


def test_what_was_asked_is_part_of_a_generated_datasets_identity(
    folder: Path, tmp_path: Path
) -> None:
    asked = {"workload": "make_images", "options": {"images": 16}}
    more = {"workload": "make_images", "options": {"images": 32}}
    assert dataset.key("made", None) == "made"
    assert dataset.key("made", asked).startswith("made-")
    assert dataset.key("made", asked) != dataset.key("made", more)
    kept = tmp_path / "m.json"
    dataset.keep(dataset.take("made", folder, "generated", asked), kept)
    found = dataset.read(kept)
    assert found is not None
    dataset.check_asked(found, asked, kept)
    with pytest.raises(Refused, match=r"(?s)not what was asked.*'images': 16.*'images': 32"):
        dataset.check_asked(found, more, kept)


def test_a_manifest_from_before_it_said_what_was_asked_is_read(
    folder: Path, tmp_path: Path
) -> None:
    old = asdict(dataset.take("flowers", folder, "given"))
    del old["asked"]
    (tmp_path / "m.json").write_text(json.dumps(old))
    found = dataset.read(tmp_path / "m.json")
    assert found is not None and found.asked is None


def test_what_once_had_its_name_goes_unless_a_run_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "folder", lambda: tmp_path / "run")
    kept, used, unused = (tmp_path / f"data/made-{digit * 12}" for digit in "012")
    others = [tmp_path / "data" / name for name in ("made", "made-by-me", "other-222222222222")]
    for path in (kept, used, unused, *others):
        path.mkdir(parents=True)
    (tmp_path / "data/made-222222222222.json").touch()
    me = os.getpid()
    holder = {"host": socket.gethostname(), "pid": me, "start": lease.start_time(me)}
    uses.note([str(used)], holder)
    assert dataset.superfluous("made", kept) == [unused]
    dataset.remove(unused)
    assert not list((tmp_path / "data").glob("made-22*"))
    uses.note([str(used)], {**holder, "start": 1})
    assert dataset.superfluous("made", kept) == []


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


# In place of the workload that makes datasets: it counts how often it is run.
GENERATOR = """
import json, pathlib, sys
options = json.loads(pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text())["options"]
out = pathlib.Path(sys.argv[-1])
with open(options["count"], "a") as file:
    file.write("once")
for number in range(options["images"]):
    path = out / "dataset/rose" / f"{number}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("image")
    path.chmod(0o600)
sys.exit("no more roses" if options["images"] > 3 else 0)
"""


@pytest.fixture
def generator(tmp_path: Path) -> dict[str, str]:
    """A virtual environment, as on a controller without root."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    (venv / "strata/workloads").mkdir(parents=True)
    (venv / "strata/workloads/__main__.py").write_text(GENERATOR)
    return {"kind": "venv", "digest": "d", "rootfs": str(venv)}


def test_a_dataset_is_generated_once_by_whoever_comes_first(
    tmp_path: Path, generator: dict[str, str]
) -> None:
    count = tmp_path / "count"
    asked = {"workload": "make_x", "options": {"images": 2, "count": str(count)}}
    made = tmp_path / "data" / dataset.key("made", asked)
    (made.parent / f".{made.name}.part" / "half").mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: generate.generate(generator, asked, made), range(2)))
    assert count.read_text() == "once"
    assert [path.name for path in made.parent.iterdir()] == [made.name]
    assert len(dataset.listing(made)) == 2
    assert {path.stat().st_uid for path in made.rglob("*")} == {os.geteuid()}


def test_a_generator_that_fails_is_refused_with_what_it_said(
    tmp_path: Path, generator: dict[str, str]
) -> None:
    options = {"images": 4, "count": str(tmp_path / "count")}
    with pytest.raises(Refused, match=r"(?s)could not be generated.*exit status 1: no more roses"):
        generate.generate(generator, {"workload": "x", "options": options}, tmp_path / "data/made")
    assert list((tmp_path / "data").iterdir()) == []
