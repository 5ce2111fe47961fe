"""The modules strata_lease_info, strata_clean and strata_folder through real Ansible."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from strata.host import lease
from strata.host.owned import MARKER, Folder

from .conftest import RunModule

HERE = socket.gethostname()


def held(pid: int, start: int, host: str = HERE) -> dict[str, Any]:
    """What strata_host says of a host that a process holds."""
    holder = {"host": host, "pid": pid, "start": start}
    since = "2026-01-01T00:00:00+00:00"
    return {"lease": {"run": "a", "holder": holder, "since": since, "expires": 2e9}}


@pytest.mark.parametrize("check", [False, True])
def test_held_knows_a_dead_controller(run_module: RunModule, check: bool) -> None:
    hosts = {"free": {"lease": {}}, "left": held(os.getpid(), 1)}
    found = run_module("strata_lease_info", {"hosts": hosts}, check=check)
    assert not found["failed"] and not found["changed"]
    assert found["stale"] == ["left"]


def test_held_refuses_a_living_one_and_what_it_cannot_know(run_module: RunModule) -> None:
    living = held(os.getpid(), lease.start_time(os.getpid()) or 0)
    for host in (living, held(os.getpid(), 1, host="another-controller.example")):
        refused = run_module("strata_lease_info", {"hosts": {"node1": host}})
        assert refused["failed"]
        assert refused["msg"].startswith("node1 is held by another run\n")
        assert "\nnext: " in refused["msg"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with images in it."""
    folder = tmp_path / "state"
    Folder(folder, "state").claim()
    (folder / "images" / "0123").mkdir(parents=True)
    return folder


def test_clean_says_does_and_finds_nothing_again(run_module: RunModule, state: Path) -> None:
    asked = {"state_dir": str(state)}
    folders = [str(state), str(state / "images")]

    would = run_module("strata_clean", asked, check=True, diff=True, alone=True)
    assert would["changed"] and (state / "images").exists()
    assert would["diff"]["before"]["folders"] == folders
    assert would["diff"]["after"]["folders"] == []

    done = run_module("strata_clean", asked, alone=True)
    assert not done["failed"], done["msg"]
    assert done["changed"] and done["removed"]["folders"] == folders
    assert (done["left"], done["elsewhere"], done["progress"]) == ([], [], [])
    assert not state.exists()
    assert not run_module("strata_clean", asked, alone=True)["changed"]


def test_clean_leaves_and_names_what_is_not_stratas(run_module: RunModule, state: Path) -> None:
    (state / "thesis").mkdir()
    (state / "thesis" / "chapter").touch()
    (state / "datasets").symlink_to(state / "thesis")
    mine = [str(state / name) for name in ("datasets", "thesis")]
    done = run_module("strata_clean", {"state_dir": str(state)}, alone=True)
    assert not done["failed"], done["msg"]
    assert (done["changed"], done["left"]) == (True, mine)
    assert all("is not Strata's, and stays" in line for line in done["progress"])
    assert (state / "thesis" / "chapter").exists() and not (state / "images").exists()

    refused = run_module("strata_clean", {"state_dir": str(state)}, alone=True)
    assert refused["failed"]
    assert "'thesis' and no marker of Strata's" in refused["msg"]
    assert (state / "thesis" / "chapter").exists()


def test_clean_says_which_other_folder_a_run_has_used(
    run_module: RunModule, state: Path, tmp_path: Path
) -> None:
    """The image's module claims what a run gives to it, and nobody tells that to teardown."""
    used = tmp_path / "bigdisk"
    run_module("strata_image", {"state_dir": str(used)})
    found = run_module("strata_host", {"state_dir": str(state)})
    assert found["state_dir"] == {"ours": True, "refused": {}, "elsewhere": [str(used)]}
    done = run_module("strata_clean", {"state_dir": str(state)}, alone=True)
    assert done["elsewhere"] == [str(used)]
    assert f"-e strata_state_dir={used}" in done["progress"][0]
    assert used.exists()


def test_a_cache_is_claimed_and_emptied_by_name(run_module: RunModule, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    asked = {"path": str(cache), "kind": "cache"}
    gone = {**asked, "state": "absent", "keep": ["rehearsal"]}
    assert run_module("strata_folder", asked)["changed"]
    assert not run_module("strata_folder", asked)["changed"]
    for name in ("images", "wheels", "rehearsal", "thesis"):
        (cache / name / "inner").mkdir(parents=True)
    would = run_module("strata_folder", gone, check=True, diff=True)
    kept = f"{cache}\n{cache}/rehearsal\n"
    assert would["changed"] and would["diff"]["after"] == kept
    assert (cache / "images").exists()
    done = run_module("strata_folder", gone)
    assert (done["changed"], done["left"]) == (True, [str(cache / "thesis")])
    assert {path.name for path in cache.iterdir()} == {MARKER, "rehearsal", "thesis"}
    assert not run_module("strata_folder", gone)["changed"]


def test_disks_that_are_not_of_a_lab_are_left_alone(run_module: RunModule, tmp_path: Path) -> None:
    holiday = tmp_path / "disks" / "holiday.img"
    holiday.parent.mkdir()
    holiday.touch()
    refused = run_module("strata_rehearsal_disks", {"folder": str(holiday.parent)})
    assert refused["failed"] and holiday.exists()
    assert "only what is in Strata's own cache is removed" in refused["msg"]


def test_clean_leaves_a_host_that_is_held(
    run_module: RunModule, state: Path, tmp_path: Path
) -> None:
    holder = {"host": "another-controller.example", "pid": 7, "start": 99}
    run_module("strata_lease", {"run": "a", "holder": holder})

    refused = run_module("strata_clean", {"state_dir": str(state)}, alone=True)
    assert refused["failed"] and "held by run a" in refused["msg"]
    assert state.exists()

    forced = run_module("strata_clean", {"state_dir": str(state), "force": True}, alone=True)
    assert not forced["failed"], forced["msg"]
    assert not state.exists()
    assert list(tmp_path.rglob("lease.json")) == []
