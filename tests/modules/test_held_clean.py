"""The modules strata_held and strata_clean through real Ansible."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from strata import lease

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
    found = run_module("strata_held", {"hosts": hosts}, check=check)
    assert not found["failed"] and not found["changed"]
    assert found["stale"] == ["left"]


def test_held_refuses_a_living_one_and_what_it_cannot_know(run_module: RunModule) -> None:
    living = held(os.getpid(), lease.start_time(os.getpid()) or 0)
    for host in (living, held(os.getpid(), 1, host="another-controller.example")):
        refused = run_module("strata_held", {"hosts": {"node1": host}})
        assert refused["failed"]
        assert refused["msg"].startswith("node1 is held by another run\n")
        assert "\nnext: " in refused["msg"]


def test_clean_says_does_and_finds_nothing_again(run_module: RunModule, tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "images").mkdir(parents=True)
    asked = {"state_dir": str(state)}

    would = run_module("strata_clean", asked, check=True, diff=True, alone=True)
    assert would["changed"] and state.exists()
    assert str(state) in would["diff"]["before"]["folders"]
    assert would["diff"]["after"]["folders"] == []

    done = run_module("strata_clean", asked, alone=True)
    assert not done["failed"], done["msg"]
    assert done["changed"] and str(state) in done["removed"]["folders"]
    assert not state.exists()
    assert not run_module("strata_clean", asked, alone=True)["changed"]


def test_clean_leaves_a_host_that_is_held(run_module: RunModule, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    holder = {"host": "another-controller.example", "pid": 7, "start": 99}
    run_module("strata_lease", {"run": "a", "holder": holder})

    refused = run_module("strata_clean", {"state_dir": str(state)}, alone=True)
    assert refused["failed"] and "held by run a" in refused["msg"]
    assert state.exists()

    forced = run_module("strata_clean", {"state_dir": str(state), "force": True}, alone=True)
    assert not forced["failed"], forced["msg"]
    assert not state.exists()
    assert list(tmp_path.rglob("lease.json")) == []
