"""What hosts answer is checked before anything is touched."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from strata import lease, preflight
from strata.errors import Refused
from strata.experiment import Experiment

HOLDER = {"host": "elsewhere", "pid": 1, "start": 1}


def facts(**changes: Any) -> dict[str, Any]:
    docker = {"why_not": ""}
    return {"images": [], "disk_free": 100 * 2**30, "docker": docker, "lease": {}, **changes}


def held_by(holder: dict[str, Any]) -> dict[str, Any]:
    return facts(lease={"run": "other-1", "holder": holder, "since": "2026-01-01"})


def test_too_little_disk_is_refused() -> None:
    preflight.check_disk("here", facts())
    with pytest.raises(Refused, match="too little disk space") as refused:
        preflight.check_disk("here", facts(disk_free=3 * 2**30))
    assert "3 GiB free, 8 GiB needed" in str(refused.value)
    preflight.check_disk("here", facts(disk_free=3 * 2**30, images=["unpacked"]))


def test_a_host_that_another_run_holds_is_refused() -> None:
    me = {"host": socket.gethostname(), "pid": os.getpid(), "start": lease.start_time(os.getpid())}
    assert not preflight.stale_lease("here", facts(), me)
    assert not preflight.stale_lease("here", held_by(me), me)
    with pytest.raises(Refused, match="here is held by another run") as refused:
        preflight.stale_lease("here", held_by(HOLDER), me)
    assert "run other-1, controller elsewhere process 1" in str(refused.value)


def test_the_lease_of_a_dead_controller_of_this_machine_is_broken() -> None:
    dead = {"host": socket.gethostname(), "pid": os.getpid(), "start": 1}
    assert preflight.stale_lease("there", held_by(dead), HOLDER)


@pytest.mark.parametrize(
    ("kind", "why_not", "words"),
    [("rootfs", "", ""), ("rootfs", "it is not installed", "not installed"), ("venv", "", "root")],
)
def test_why_docker_cannot_be_had(kind: str, why_not: str, words: str) -> None:
    found = preflight.why_no_docker(facts(docker={"why_not": why_not}), kind)
    assert bool(found) == bool(words)
    assert words in found


def experiment(dataset: dict[str, Any] | None) -> Experiment:
    given = {"name": "x", "title": "x", "workload": "spin", "factors": {}, "baseline": {}}
    return Experiment.model_validate({**given, "repeats": 1, "dataset": dataset})


def test_a_dataset_is_given_or_generated(tmp_path: Path) -> None:
    (tmp_path / "My Data" / "a").mkdir(parents=True)
    (tmp_path / "My Data" / "a" / "1.jpg").touch()
    given = preflight.dataset_of(experiment(None), str(tmp_path / "My Data"))
    assert given == {"name": "my-data", "path": str(tmp_path / "My Data"), "generate": None}
    made = preflight.dataset_of(experiment({"name": "made", "generate": {"images": 4}}), "")
    assert made is not None
    assert (made["path"], made["generate"]["images"]) == (None, 4)
    assert preflight.dataset_of(experiment(None), "") is None
    with pytest.raises(Refused, match="has a path, or is to be generated"):
        preflight.dataset_of(experiment({"name": "neither"}), "")
    with pytest.raises(Refused, match="no such folder"):
        preflight.dataset_of(experiment({"name": "gone", "path": "/nowhere"}), "")


def test_the_name_of_a_given_dataset_fits_into_a_file_name(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 250)
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "1.jpg").touch()
    given = preflight.dataset_of(experiment(None), str(folder))
    assert given and len(given["name"]) == 64


def test_the_folder_of_results_can_be_written(tmp_path: Path) -> None:
    preflight.check_results(tmp_path / "new" / "results")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("file", "file/below", "loop", "loop/below"):
        with pytest.raises(Refused, match=r"is no folder|Too many levels"):
            preflight.check_results(tmp_path / name)
    with pytest.raises(Refused, match="name too long"):
        preflight.check_results(tmp_path / ("x" * 300))


def test_a_folder_of_results_that_is_another_accounts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(Refused, match=r"may not write|Permission denied"):
            preflight.check_results(tmp_path / "closed" / "results")
    finally:
        os.seteuid(me)


def test_an_oci_image_has_a_reference() -> None:
    preflight.check_image({"kind": "rootfs", "reference": ""})
    preflight.check_image({"kind": "oci", "reference": "docker.io/library/python:3.11"})
    with pytest.raises(Refused, match="is taken from a reference"):
        preflight.check_image({"kind": "oci", "reference": " "})


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_trial_is_tried_at_least_once(attempts: int) -> None:
    preflight.check_attempts(1)
    with pytest.raises(Refused, match="at least once"):
        preflight.check_attempts(attempts)


@pytest.mark.parametrize(
    ("name", "address", "words"),
    [
        ("n" * 201, None, "at most 200"),
        ("../up", None, "at most 200"),
        ("node\x1b[31m", None, "at most 200"),
        ("node1", "10.0.0.999", "IPv4 address"),
        ("node1", "node1.example.org", "IPv4 address"),
        ("node1", "224.0.0.1", "IPv4 address"),
        ("node1", 10, "IPv4 address"),
        ("node1", ["10.0.0.1"], "IPv4 address"),
    ],
)
def test_hosts_have_names_and_addresses(name: str, address: Any, words: str) -> None:
    preflight.check_host("fe80::1%eth0", "10.0.0.1")
    with pytest.raises(Refused, match=words):
        preflight.check_host(name, address)


@pytest.mark.parametrize(
    ("addresses", "fits"),
    [
        ({"a": "10.0.0.1", "b": "10.0.0.2"}, True),
        ({"a": "10.0.0.1", "b": "10.0.0.1"}, False),
        ({"a": "10.0.0.1", "b": ""}, False),
    ],
)
def test_peers_need_an_address_each(addresses: dict[str, str], fits: bool) -> None:
    preflight.check_addresses([["a"], ["b"]], addresses)
    if fits:
        preflight.check_addresses([["a", "b"]], addresses)
    else:
        with pytest.raises(Refused, match="need an address each"):
            preflight.check_addresses([["a", "b"]], addresses)
