"""The modules strata_lease, strata_host and strata_fingerprint through real Ansible."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from strata import runtimes
from strata.host import fingerprint, lease

from .conftest import RunModule

ELSEWHERE = {"host": "another-controller.example", "pid": 7, "start": 99}


@pytest.fixture
def me() -> dict[str, Any]:
    """The test's own process as the controller."""
    return lease.process(os.getpid())


def test_lease_do_again_change_and_undo(run_module: RunModule, me: dict[str, Any]) -> None:
    asked = {"run": "a", "holder": me}
    done = run_module("strata_lease", asked, diff=True)
    assert done["changed"] and done["lease"] == {}
    assert done["diff"] == {"before": "held by nobody\n", "after": "held by a\n"}

    again = run_module("strata_lease", asked, diff=True)
    assert not again["changed"] and again["lease"]["holder"] == me
    assert again["diff"]["before"] == again["diff"]["after"]

    refused = run_module("strata_lease", {"run": "b", "holder": ELSEWHERE})
    assert refused["failed"]
    assert refused["msg"].startswith("this host is held by another run\n")
    assert (
        f"run a, which measures, controller {me['host']} process {me['pid']}, since "
        in refused["msg"]
    )
    assert "\nnext: " in refused["msg"]

    taken = run_module("strata_lease", {"run": "b", "holder": ELSEWHERE, "force": True})
    assert taken["changed"] and taken["lease"]["run"] == "a"

    gone = run_module("strata_lease", {"run": "b", "holder": ELSEWHERE, "state": "absent"})
    assert gone["changed"]
    nothing = run_module("strata_lease", {"run": "b", "holder": ELSEWHERE, "state": "absent"})
    assert not nothing["changed"]


def test_lease_check_mode_says_the_same_and_does_nothing(
    run_module: RunModule, me: dict[str, Any], tmp_path: Path
) -> None:
    asked = {"run": "a", "holder": ELSEWHERE}
    would = run_module("strata_lease", asked, check=True, diff=True)
    assert would["changed"] and would["diff"]["after"] == "held by a\n"
    assert list(tmp_path.rglob("lease.json")) == []

    run_module("strata_lease", asked)
    would_not = run_module("strata_lease", {"run": "a", "holder": me}, check=True)
    assert would_not["failed"]
    assert "another controller of this run" in would_not["msg"]
    let_go = run_module("strata_lease", {**asked, "state": "absent"}, check=True)
    assert let_go["changed"]
    assert len(list(tmp_path.rglob("lease.json"))) == 1


def test_lease_is_waited_for_in_words_while_its_holder_builds(run_module: RunModule) -> None:
    with subprocess.Popen(["sleep", "300"]) as builder:
        try:
            holder = lease.process(builder.pid)
            run_module("strata_lease", {"run": "a", "holder": holder, "use": "build"})
            asked = {"run": "b", "holder": ELSEWHERE, "patience_s": 3600}
            end = lambda line: builder.kill() if "is waited for, at most 1 h" in line else None  # noqa: E731
            done = run_module("strata_lease", asked, see=end)
        finally:
            builder.kill()
    assert not done["failed"], done["msg"]
    assert "localhost is held by another run: run a, which builds" in done["said"]


def test_lease_of_one_that_measures_is_not_waited_for(run_module: RunModule) -> None:
    run_module("strata_lease", {"run": "a", "holder": ELSEWHERE})
    refused = run_module("strata_lease", {"run": "b", "holder": ELSEWHERE, "patience_s": 3600})
    assert refused["failed"] and "run a, which measures" in refused["msg"]


def test_lease_wants_the_whole_holder(run_module: RunModule) -> None:
    refused = run_module("strata_lease", {"run": "a", "holder": {"host": "x", "pid": 1}})
    assert refused["failed"]
    assert "start" in refused["msg"]


@pytest.mark.parametrize("check", [False, True])
def test_host_tells_all_and_the_lease(
    run_module: RunModule, me: dict[str, Any], tmp_path: Path, check: bool
) -> None:
    run_module("strata_lease", {"run": "a", "holder": me})
    state = tmp_path / "state"
    found = run_module("strata_host", {"state_dir": str(state)}, check=check)
    assert not found["failed"] and not found["changed"]
    assert found["root"] is (os.geteuid() == 0)
    assert found["memory_total"] > found["memory_available"] > 0
    assert found["disk_free"] > 0
    assert set(found["docker"]) == {"missing", "running", "version", "why_not"}
    assert set(found["apptainer"]) == {"installed", "built", "missing", "why_not"}
    assert found["lease"]["run"] == "a" and found["lease"]["holder"] == me
    assert not state.exists()


def test_fingerprint_is_what_the_library_captures(run_module: RunModule, tmp_path: Path) -> None:
    found = run_module("strata_fingerprint", {"state_dir": str(tmp_path)})
    assert not found["changed"]
    assert _lasting(found["fingerprint"]) == _lasting(fingerprint.capture(tmp_path))
    assert fingerprint.drift(found["fingerprint"]) == []


def _lasting(values: dict[str, Any]) -> dict[str, Any]:
    """Without what runtimes tell: other tests install, start and stop them."""
    told = runtimes.fields()
    return {k: value for k, value in values.items() if k not in told and "docker" not in k}
