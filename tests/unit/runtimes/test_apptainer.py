"""Apptainer without Apptainer: what it is asked, what a host tells of it, what a SIF is."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from strata import runtimes
from strata.cell import Resources
from strata.errors import Refused
from strata.image.rootfs import Rootfs
from strata.runtimes import apptainer, base
from strata.runtimes.apptainer import images, installation
from strata.runtimes.apptainer.container import Apptainer
from strata.runtimes.base import Spec, StartError

from tests.conftest import REPO

HEAD = REPO / "tests/data/apptainer/head.sif.gz"
STAGE = Path("/run/strata")


def spec_of(tmp_path: Path, **more: Any) -> Spec:
    held = str(tmp_path / "state/images/tools-012345678901/rootfs")
    image = {"family": "tools", "kind": "rootfs", "digest": "0123456789012", "rootfs": held}
    spool = tmp_path / "state/trials/t-r1"
    environment = {"PATH": "/usr/bin"}
    given = {"account": 2_000_000_000, "environment": environment, **more}
    return Spec("t-r1", "run", "spin", spool, image, **given)


def command_of(tmp_path: Path, **more: Any) -> list[str]:
    return Apptainer(spec_of(tmp_path, **more), Path("/usr/bin/apptainer"))._command(STAGE)


def test_a_program_is_started_without_rights_and_sees_what_it_is_given(tmp_path: Path) -> None:
    command = command_of(tmp_path, data=Path("/d"), scratch=True)
    own, inside = command[: command.index("/run/strata/image")], command[-8:]
    assert own[0] == "/usr/bin/apptainer"
    assert {"--userns", "--cleanenv", "--no-home"} <= set(own)
    assert not {"--nv", "--fakeroot", "--writable", "--writable-tmpfs", "--contain"} & set(own)
    bound = [own[at + 1] for at, word in enumerate(own) if word == "--bind"]
    binds = ("in:/in:ro", "out:/out", "tmp:/tmp", "run:/run", "data:/data:ro")
    assert bound == [f"{STAGE}/{bind}" for bind in binds]
    workload = ["/usr/bin/python3", "-m", "workloads", "spin"]
    assert inside == [*workload, "--config", "/in/config.json", "--out", "/out"]
    # Whatever Apptainer adds to the environment, the program finds what it finds everywhere.
    environment = command[command.index("/usr/bin/env") : -8]
    assert environment == ["/usr/bin/env", "-i", "PATH=/usr/bin", "CUDA_VISIBLE_DEVICES="]


def test_gpus_are_passed_through_by_apptainer(tmp_path: Path) -> None:
    command = command_of(tmp_path, resources=Resources(gpus=["0", "2"]))
    assert "--nv" in command
    assert {"CUDA_VISIBLE_DEVICES=0,2", "LD_LIBRARY_PATH=/.singularity.d/libs"} <= set(command)


@pytest.mark.parametrize("mounts", [True, False])
def test_an_image_that_is_not_there_is_a_failed_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: bool
) -> None:
    monkeypatch.setattr(installation, "mounts_images", lambda: mounts)
    with pytest.raises(StartError, match="image.sif" if mounts else "rootfs"):
        Apptainer(spec_of(tmp_path), Path("/usr/bin/apptainer"))._set_up()


def test_without_apptainer_a_trial_is_a_failed_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "program", lambda: None)
    with pytest.raises(StartError, match="not installed"):
        runtimes.make("apptainer", spec_of(tmp_path)).prepare()


@pytest.mark.parametrize(
    ("installed", "namespaces", "root", "apt", "words"),
    [
        (True, True, True, False, ""),
        (False, True, True, True, ""),
        (False, True, True, False, "no apt"),
        (True, False, True, True, "max_user_namespaces"),
        (True, True, False, True, "needs root"),
    ],
)
def test_why_it_cannot_be_had(
    installed: bool, namespaces: bool, root: bool, apt: bool, words: str
) -> None:
    found = installation.why_not(installed=installed, namespaces=namespaces, root=root, apt=apt)
    assert words in found
    assert bool(found) == bool(words)
    assert apptainer.why_not({"why_not": found}, "rootfs") == found
    assert "without root" in apptainer.why_not({"why_not": ""}, "venv")


def test_without_fuse_the_image_is_the_unpacked_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is missing that only a SIF needs."""
    monkeypatch.setattr(installation, "fuse", lambda: False)
    assert installation.facts()["missing"] == []
    held = apptainer.store(tmp_path, "tools", "0" * 64)
    assert type(held) is Rootfs
    assert held.root == tmp_path / "images/tools-000000000000/rootfs"


def test_fuse_is_a_device_that_any_account_may_use(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o666)
    found = [
        installation.fuse(path)
        for path in (Path("/dev/null"), tmp_path / "file", tmp_path / "none")
    ]
    assert found == [True, False, False]


SAID = {
    "apptainer version 1.4.3\n": "1.4.3",
    "squashfuse 0.1.105 (c) 2012 Dave Vasilevsky\n\nUsage: squashfuse": "0.1.105",
    "apptainer version 1.4.5-2\n": "1.4.5-2",
    "apptainer: not found": "",
}


@pytest.mark.parametrize("said", SAID)
def test_a_version_is_the_first_number_that_a_program_says(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "_said", lambda _: said)
    assert installation._version(Path("/usr/bin/any")) == SAID[said]


def test_where_it_is_not_installed_a_fingerprint_has_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "program", lambda: None)
    assert installation.fingerprint() == {}
    monkeypatch.setattr(installation, "program", lambda: Path("/bin/true"))
    assert set(installation.fingerprint()) == set(installation.FIELDS)


def test_the_root_filesystem_of_a_recorded_sif_is_found(tmp_path: Path) -> None:
    """Of one that Apptainer 1.4.3 made: tests/data/apptainer/README.md."""
    sif = tmp_path / "image.sif"
    sif.write_bytes(gzip.decompress(HEAD.read_bytes()))
    assert sif.read_bytes()[images.offset(sif) :][:4] == b"hsqs"  # how a SquashFS begins


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"x" * 4096])
def test_what_is_no_sif_is_refused(tmp_path: Path, content: bytes) -> None:
    sif = tmp_path / "image.sif"
    sif.write_bytes(content)
    with pytest.raises(Refused, match="a SIF has a partition"):
        images.offset(sif)


def test_a_trials_image_is_beside_the_unpacked_one(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    held = images.Sif(tmp_path / "state/apptainer", "tools", "0123456789012")
    assert images.of(spec.image) == held.path
    assert held.uses() == [str(tmp_path / "state/apptainer/tools-012345678901")]
    assert base.inside(spec).code == "/opt/strata/site:/opt/strata"
