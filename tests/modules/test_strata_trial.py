"""strata_trial through real Ansible: a trial from a virtual environment, needing no image."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.cell import Cell
from strata.host import lease

from controller import topology
from tests.burner import Burner
from tests.conftest import REPO, lone
from tests.data import pairs

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
        **{"family": "python", "levels": levels, "members": lone("localhost")},
    }
    image = {"family": "python", "kind": "venv", "digest": "d" * 64, "rootfs": str(venv)}
    return {
        "slot": {"run": "r", "slot": "s0001", "hosts": ["localhost"], "trials": [trial]},
        "host": "localhost",
        "images": {"python": image},
        "holder": holder,
        "time_limit_s": 60,
        "judged": False,
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
    for judged in (True, False):
        found = run_module("strata_trial", {**asked, "judged": judged}, alone=True)
        assert not found["failed"] and found["changed"]
        (outcome,) = found["outcomes"]
        record = outcome["record"]
        assert record.pop("member") == {"role": "worker", "index": 0, "host": "localhost"}
        assert (record["status"], record["reason"]) == ("ok", None), outcome["stderr"]
        # Where it stands in the plan is added on the controller.
        assert set(record) == rows_of("record.json") - {"block", "round", "position"}
        assert "leftovers" not in [flag["name"] for flag in record["flags"]]
        assert record["metrics"]["rate"]["value"] > 0
        bursts = [record["metrics"].get(f"reference_{when}") for when in ("before", "after")]
        assert all(burst["value"] > 0 for burst in bursts) if judged else not any(bursts)
        assert len(outcome["steps"].splitlines()) == 6
        # Its work may all lie before the last sample, which is taken while it is waited for; and
        # a sample that comes before its process was there knows nothing of it.
        assert sum(row["workload_cpu"] or 0.0 for row in outcome["usage"]) > 0
        assert list((Path(asked["state_dir"]) / "trials").iterdir()) == []
        records.append(record)
    assert records[0]["clock"] != records[1]["clock"]


def used(record: dict[str, Any], by: str) -> float:
    """CPU seconds on a record."""
    return float(record["metrics"][by]["value"])


def test_a_process_that_is_no_part_of_the_trial_is_seen_and_flagged(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any]
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    asked["slot"]["trials"][0]["levels"]["steps"] = 10
    with Burner() as burner:
        (outcome,) = run_module("strata_trial", asked, alone=True)["outcomes"]
    record, rows = outcome["record"], outcome["usage"]
    assert record["status"] == "ok", record["reason"]
    got = burner.spent(record["clock"]["launched"], record["clock"]["finished"])
    # Others on this machine only add to it. The span begins some milliseconds after the launch.
    assert used(record, "cpu_others") > 0.8 * got > 0
    doubts = {flag["name"]: flag.get("share") for flag in record["flags"]}
    assert doubts["disturbed"] == record["disturbance"]["others"] > 0
    assert used(record, "cpu_strata") > 0
    assert used(record, "cpu") > 0 and used(record, "cpu_beside") == 0
    assert max(row["others_cpu"] for row in rows) > 0
    assert {row["beside_cpu"] for row in rows} == {0.0}


def test_a_background_job_is_beside_the_trial_and_not_among_others(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any]
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    measured = asked["slot"]["trials"][0]
    measured["levels"]["steps"] = 10
    asked["slot"]["trials"].append({**measured, "trial": "b-r1", "cell": "b", "role": "background"})
    outcomes = run_module("strata_trial", asked, alone=True)["outcomes"]
    background, trial = (outcome["record"] for outcome in outcomes)
    assert [background["role"], trial["role"]] == ["background", "measured"]
    assert (background["status"], trial["status"]) == ("ok", "ok"), background["reason"]
    # Each of its steps is as much work: of its CPU time, as much lies in the span as of its steps.
    begun = [json.loads(line)["mono"] for line in outcomes[0]["steps"].splitlines()]
    inside = [trial["clock"]["launched"] < at < trial["clock"]["finished"] for at in begun]
    share = sum(inside) / len(inside)
    assert used(trial, "cpu_beside") > 0.5 * share * used(background, "cpu") > 0
    assert used(trial, "cpu_beside") <= used(background, "cpu")
    # Seen from the other side it is the same.
    assert 0 < used(background, "cpu_beside") <= used(trial, "cpu")
    for whose in ("cpu_others", "cpu_strata"):
        assert used(background, whose) == pytest.approx(used(trial, whose))
    assert max(row["beside_cpu"] for row in outcomes[1]["usage"]) > 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_two_of_a_duet_run_at_the_same_time_on_cpus_of_their_own(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any]
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    first = asked["slot"]["trials"][0]
    asked["slot"]["trials"] = [{**first, "side": 1}, {**first, "trial": "d-r1", "side": 2}]
    outcomes = run_module("strata_trial", asked, alone=True)["outcomes"]
    records = [outcome["record"] for outcome in outcomes]
    assert [record["status"] for record in records] == ["ok", "ok"]
    own = [set(record["duet"]["cpus"].split(",")) for record in records]
    assert len(own[0]) == len(own[1]) > 0 and not own[0] & own[1]
    for outcome, other in (outcomes, outcomes[::-1]):
        assert used(outcome["record"], "cpu_beside") > 0
        clock = other["record"]["clock"]
        begun = [json.loads(line)["mono"] for line in outcome["steps"].splitlines()]
        assert any(clock["launched"] < at < clock["finished"] for at in begun)


def test_a_failed_trial_is_a_result_of_the_module(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any]
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    asked["slot"]["trials"][0]["levels"] |= {"fail": "exit", "work": 10}
    found = run_module("strata_trial", asked, alone=True)
    assert not found["failed"] and found["changed"]
    record = found["outcomes"][0]["record"]
    assert (record["status"], record["reason"]["cause"]) == ("failed", "exit")


def test_a_client_and_a_server_of_one_trial_meet_and_write_to_scratch(
    run_module: RunModule,
    asked: dict[str, Any],
    holder: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs.register(monkeypatch)
    run_module("strata_lease", {"run": "r", "holder": holder})
    code = Path(asked["images"]["python"]["rootfs"]) / "strata/workloads"
    code.unlink()
    shutil.copytree(REPO / "workloads", code)
    shutil.copy(pairs.FILE, code)
    asked |= {"slot": pairs.slot(tmp_path, "native", "host"), "key": KEY}
    asked["addresses"] = {"localhost": "127.0.0.1"}
    found = run_module("strata_trial", asked, alone=True)
    assert not found["failed"], found
    pairs.check(found["outcomes"], asked["slot"])
    assert list((Path(asked["state_dir"]) / "trials").iterdir()) == []


# In place of the workload: it tells all that it was given.
TELLTALE = "import pathlib, sys; print(pathlib.Path(sys.argv[3]).read_text()); sys.exit(7)"
KEY = "5ec2e7" * 10


@pytest.mark.parametrize("broken", [False, True])
def test_the_key_of_a_trial_is_in_no_result(
    run_module: RunModule, asked: dict[str, Any], holder: dict[str, Any], broken: bool
) -> None:
    run_module("strata_lease", {"run": "r", "holder": holder})
    code = Path(asked["images"]["python"]["rootfs"]) / "strata/workloads"
    code.unlink()
    code.mkdir()
    (code / "__main__.py").write_text(TELLTALE)
    trial = asked["slot"]["trials"][0]
    trial["levels"] |= {"distribution": "ring", "workers": 2, "placement": "packed"}
    trial["levels"]["workload"] = "mnist_dnn"
    trial["members"] = topology.roster(Cell.of(trial["levels"]), ["localhost"])
    if broken:
        del asked["slot"]["hosts"]
    asked |= {"key": KEY, "addresses": {"localhost": "127.0.0.1"}}
    found = run_module("strata_trial", asked, alone=True)
    assert found["failed"] == broken, found
    assert broken or '"find_s": ' in found["outcomes"][0]["stdout"], "it told what it was given"
    assert KEY not in json.dumps(found)


def test_only_tasks_that_hide_it_know_the_key() -> None:
    tasks = yaml.safe_load((REPO / "playbooks/tasks/trials.yml").read_text())
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
