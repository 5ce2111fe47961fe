"""strata_trial through real Ansible: a trial from a virtual environment, needing no image."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata import members
from strata.host import lease

from tests.conftest import REPO

from .conftest import RunModule


@pytest.fixture
def holder() -> dict[str, Any]:
    return lease.process(os.getpid())


@pytest.fixture
def asked(tmp_path: Path, holder: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a trial of `spin`."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    (venv / "strata").mkdir()
    (venv / "strata/workloads").symlink_to(REPO / "workloads")
    levels = {
        **{"substrate": "vm", "runtime": "native", "network": "host", "label": ""},
        **{"workload": "spin", "cpus": None, "memory": None, "numa": None, "gpus": None},
        **{"quota": None, "distribution": "none", "workers": 1, "servers": 0},
        **{"placement": "spread", "beside": None},
        **{"steps": 4, "warmup_steps": 2, "work": 300_000},
    }
    trial = {
        **{"trial": "c-r1", "cell": "c", "repetition": 1, "role": "measured"},
        **{"family": "tools", "levels": levels},
        "members": members.roster(1, 0, ["localhost"]),
    }
    image = {"family": "tools", "kind": "venv", "digest": "d" * 64, "rootfs": str(venv)}
    return {
        "slot": {"run": "r", "slot": "s0001", "hosts": ["localhost"], "trials": [trial]},
        "host": "localhost",
        "images": {"tools": image},
        "holder": holder,
        "time_limit_s": 60,
        "state_dir": str(tmp_path / "state"),
    }


def rows_of(table: str) -> set[str]:
    """The keys in the first column of the table of record.json in docs/results.md."""
    page = (REPO / "docs/results.md").read_text().split(f"## {table}\n")[1].split("\n## ")[0]
    first = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return {word for cell in first for word in cell.split("`")[1::2]}


def test_without_the_lease_of_its_run_nothing_starts(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any]
) -> None:
    refused = run_module("strata_trial", asked, alone=True)
    assert refused["failed"]
    assert refused["msg"].startswith("this host is not held by any run\n")
    assert not run_module("strata_lease", {"run": "other", "holder": holder})["failed"]
    refused = run_module("strata_trial", asked, alone=True)
    assert refused["failed"]
    assert "run other, which measures, controller" in refused["msg"]
    assert not Path(asked["state_dir"]).exists()


def test_check_mode_starts_nothing_and_says_what_it_would_run(
    run_module: RunModule, asked: dict[str, Any]
) -> None:
    would = run_module("strata_trial", asked, check=True, diff=True, alone=True)
    assert not would["failed"] and not would["changed"]
    assert would["would_run"] == "trial c-r1: spin on vm/native/host"
    assert not Path(asked["state_dir"]).exists()


def test_a_trial_returns_the_whole_record_each_time(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any]
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    records = []
    for _ in range(2):
        found = run_module("strata_trial", asked, alone=True)
        assert not found["failed"] and found["changed"]
        (outcome,) = found["outcomes"]
        record = outcome["record"]
        assert record.pop("member") == {"role": "worker", "index": 0, "host": "localhost"}
        assert (record["status"], record["reason"]) == ("ok", None), outcome["stderr"]
        # Where it stands in the plan is added on the controller.
        assert set(record) == rows_of("record.json") - {"block", "round", "position"}
        assert "leftovers" not in [flag["name"] for flag in record["flags"]]
        assert record["metrics"]["rate"]["value"] > 0
        assert len(outcome["steps"].splitlines()) == 6
        # Its work may all lie before the last sample, which is taken while it is waited for.
        assert sum(row["workload_cpu"] for row in outcome["usage"]) > 0
        assert list((Path(asked["state_dir"]) / "trials").iterdir()) == []
        records.append(record)
    assert records[0]["clock"] != records[1]["clock"]


def test_a_failed_trial_is_a_result_of_the_module(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any]
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    asked["slot"]["trials"][0]["levels"] |= {"fail": "exit", "work": 10}
    found = run_module("strata_trial", asked, alone=True)
    assert not found["failed"] and found["changed"]
    record = found["outcomes"][0]["record"]
    assert (record["status"], record["reason"]["cause"]) == ("failed", "exit")


# In place of the workload: it tells all that it was given.
TELLTALE = "import pathlib, sys; print(pathlib.Path(sys.argv[3]).read_text()); sys.exit(7)"
KEY = "5ec2e7" * 10


@pytest.mark.parametrize("broken", [False, True])
def test_the_key_of_a_trial_is_in_no_result(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any], broken: bool
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    code = Path(asked["images"]["tools"]["rootfs"]) / "strata/workloads"
    code.unlink()
    code.mkdir()
    (code / "__main__.py").write_text(TELLTALE)
    trial = asked["slot"]["trials"][0]
    trial["members"] = members.roster(2, 0, ["localhost"])
    trial["levels"] |= {"distribution": "ring", "workers": 2, "placement": "packed"}
    if broken:
        del asked["slot"]["hosts"]
    asked |= {"key": KEY, "addresses": {"localhost": "127.0.0.1"}}
    found = run_module("strata_trial", asked, alone=True)
    assert found["failed"] == broken, found
    assert broken or '"find_s": ' in found["outcomes"][0]["stdout"], "it told what it was given"
    assert KEY not in json.dumps(found)


def test_only_tasks_that_hide_it_know_the_key() -> None:
    tasks = yaml.safe_load((REPO / "playbooks/tasks/slot.yml").read_text())
    knowing = {task["name"]: task for task in tasks if "key" in yaml.safe_dump(task)}
    made, used = knowing.values()
    assert made["no_log"] and "register" not in made
    assert used["strata_trial"]["key"] == "{{ __strata_key | default('') }}"


def test_an_unknown_runtime_is_refused(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any]
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    asked["slot"]["trials"][0]["levels"]["runtime"] = "dokcer"
    refused = run_module("strata_trial", asked, alone=True)
    assert refused["failed"]
    assert "did you mean 'docker'?" in refused["msg"]
