"""What hosts answer is checked before anything is touched."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from strata import lease, preflight
from strata.errors import Refused
from strata.experiment import Experiment
from strata.owned import Folder

HOLDER = {"host": "elsewhere", "pid": 1, "start": 1}


def facts(**changes: Any) -> dict[str, Any]:
    docker = {"why_not": ""}
    changes = {"state_dir": {"ours": False, "refused": {}, "elsewhere": []}, **changes}
    return {"images": [], "disk_free": 100 * 2**30, "docker": docker, "lease": {}, **changes}


def held_by(holder: dict[str, Any]) -> dict[str, Any]:
    return facts(lease={"run": "other-1", "holder": holder, "since": "2026-01-01"})


def test_too_little_disk_is_refused() -> None:
    preflight.check_disk("here", facts())
    with pytest.raises(Refused, match="too little disk space") as refused:
        preflight.check_disk("here", facts(disk_free=3 * 2**30))
    assert "3 GiB free, 8 GiB needed" in str(refused.value)
    assert "strata_state_dir=/srv/bigdisk/strata" in str(refused.value), "a folder of its own"
    preflight.check_disk("here", facts(disk_free=3 * 2**30, images=["unpacked"]))


def test_a_state_folder_that_is_not_stratas_is_refused(tmp_path: Path) -> None:
    preflight.check_state("here", facts())
    (tmp_path / "thesis").touch()
    said = json.loads(json.dumps(Folder(tmp_path, "state").told()))
    with pytest.raises(Refused, match="here: Strata's state folder must be") as refused:
        preflight.check_state("here", facts(state_dir=said))
    for words in ("example: strata_state_dir=/", "given: ", "holds 'thesis'", "next: "):
        assert words in str(refused.value)


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
