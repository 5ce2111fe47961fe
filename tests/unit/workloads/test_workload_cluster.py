"""Training together: real processes with TensorFlow, as few of them as say it."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from peers import ENVIRONMENT, Process, clusters, start, until

pytest.importorskip("tensorflow")

CPUS = sorted(os.sched_getaffinity(0))
MNIST = {"global_steps": 120, "batch_size": 50, "warmup_steps": 2, "evaluate_images": 100}
# Ten classes: a tenth is chance. How far asynchronous workers come depends on who is ahead of whom.
LEARNT = 0.3
TINY = {"model": "tiny", "classes": 10, "batch_size": 4, "warmup_steps": 2, "probe": False}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("mnist")
    made = Process("make_mnist", folder, {"train": 2000, "test": 500}).well()
    return str(made.out / "dataset")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, data: str) -> Process:
    """One worker with the batch of two."""
    options = MNIST | {"batch_size": 100, "global_steps": 60}
    return Process("mnist_dnn", tmp_path_factory.mktemp("alone"), options, data_dir=data).well()


@pytest.mark.parametrize(
    ("mode", "servers", "transport"),
    [
        ("ring", 0, "strata"),
        ("ps_sync", 2, "strata"),
        ("ring", 0, "tensorflow"),
        ("ring", 0, "mpi"),
    ],
)
def test_synchronous_workers_are_one_with_a_larger_batch(
    tmp_path: Path, data: str, alone: Process, mode: str, servers: int, transport: str
) -> None:
    options = MNIST | {"transport": transport}
    members = start("mnist_dnn", tmp_path, options, clusters(mode, 2, servers), data_dir=data)
    results = [member.well().result() for member in members]
    rows = [member.steps() for member in members[:2]]
    assert [len(steps) for steps in rows] == [60, 60]
    for one, two, both in zip(*rows, alone.steps(), strict=True):
        assert (one["loss"] + two["loss"]) / 2 == pytest.approx(both["loss"], rel=0.02, abs=0.02)
        assert one["loss"] != two["loss"]  # other images
    told = [result["cluster"] for result in results]
    assert told[0]["weights"] == told[1]["weights"]
    assert [t["role"] for t in told] == ["worker"] * 2 + ["server"] * servers
    assert all(abs(t["clock_offset_s"]) <= t["clock_error_s"] for t in told)
    assert told[0]["bytes_per_step"] == 4 * (784 * 100 + 100 + 100 * 10 + 10)
    assert {t["transport"] for t in told} == {transport}
    if transport != "strata":
        assert (told[0]["sent"], told[0]["received"]) == (None, None), "it does not tell"
    else:
        # A ring of two sends its half twice, a worker of parameter servers all of it once.
        assert told[0]["sent"] == pytest.approx(60 * told[0]["bytes_per_step"], rel=0.01)
        assert told[0]["sent"] == pytest.approx(told[0]["received"], rel=0.01)
    row = rows[1][-1]
    assert row["worker"] == 1
    spent = row["input_s"] + row["compute_s"] + row["exchange_s"]
    assert spent == pytest.approx(row["duration_s"], rel=1e-6)
    assert row["exchange_s"] > 0
    for result in results[2:]:
        assert result["scalars"]["updates"]["value"] == 62
        assert result["scalars"]["counted_steps"]["value"] == 124
    assert results[0]["scalars"]["accuracy_last"]["value"] == pytest.approx(
        alone.result()["scalars"]["accuracy_last"]["value"], abs=0.05
    )


def test_a_lone_worker_learns_and_says_so(alone: Process) -> None:
    result = alone.result()
    found = {name: scalar["value"] for name, scalar in result["scalars"].items()}
    assert result["cluster"] is None
    assert found["local_steps"] == 60
    assert found["accuracy_max"] >= found["accuracy_last"] - 0.1 > 0.5
    assert found["time_delta"] * 6 == pytest.approx(found["run_time"], rel=0.05)
    assert found["throughput"] == pytest.approx(100 * found["rate"])
    assert all(row["exchange_s"] == 0 for row in alone.steps())


def together(folder: Path, name: str, options: Any, items: Any, **config: Any) -> Process:
    return Process(name, folder, options, together=items, **config)


def test_asynchronous_members_of_one_container(tmp_path: Path, data: str) -> None:
    items = [
        {"cluster": cluster, "affinity": [CPUS[n % len(CPUS)]], "cpus": 1}
        for n, cluster in enumerate(clusters("ps_async", 2, 1))
    ]
    held = together(tmp_path, "mnist_dnn", MNIST, items, data_dir=data).well()
    results = [
        json.loads((held.out / f"member-{n}/result.json").read_text()) for n in range(len(items))
    ]
    own = [result["scalars"]["local_steps"]["value"] for result in results[:2]]
    assert 120 <= sum(own) <= 121  # the other worker's last one may have been under way
    assert results[2]["scalars"]["updates"]["value"] == sum(own) + 4
    assert all(result["scalars"]["accuracy_last"]["value"] > LEARNT for result in results[:2])
    assert results[0]["cluster"]["weights"] is None
    assert (held.out / "member-2/steps.jsonl").read_text() == ""
    assert results[0]["environment"]["threads"]["intra_op"] == 1


def test_asynchronous_workers_of_tensorflows_own_servers(tmp_path: Path, data: str) -> None:
    options = MNIST | {"transport": "tensorflow"}
    members = start("mnist_dnn", tmp_path, options, clusters("ps_async", 2, 2), data_dir=data)
    results = [member.well().result() for member in members]
    own = [result["scalars"]["local_steps"]["value"] for result in results[:2]]
    assert 120 <= sum(own) <= 121  # the other worker's last one may have been under way
    for result in results[2:]:
        assert result["scalars"]["counted_steps"]["value"] == sum(own) + 4
    assert all(result["scalars"]["accuracy_last"]["value"] > LEARNT for result in results[:2])


@pytest.mark.parametrize("transport", ["tensorflow", "mpi"])
def test_a_worker_that_is_lost_to_anothers_ring_ends_the_other(
    tmp_path: Path, transport: str
) -> None:
    told = clusters("ring", 2)
    options = TINY | {"steps": 10**6, "transport": transport}
    members = start("tf_image_classification", tmp_path, options, told)
    wait_for_steps(members[1].out)
    members[1].process.kill()
    status, said = members[0].end()
    assert status == 75
    assert f"worker 1 at {told[0]['workers'][1]} was lost" in said or "TensorFlow's" in said


def test_a_lost_worker_ends_all_and_is_named(tmp_path: Path) -> None:
    told = clusters("ps_sync", 2, 1)
    members = start("tf_image_classification", tmp_path, TINY | {"steps": 10**6}, told)
    wait_for_steps(members[1].out)
    members[1].process.kill()
    for member in (members[0], members[2]):
        status, said = member.end()
        assert status == 75
        assert f"worker 1 at {told[0]['workers'][1]} was lost" in said


def test_a_loss_that_is_not_finite_ends_all(tmp_path: Path) -> None:
    options = TINY | {"steps": 10**6, "learning_rate": 1e38}
    members = start("tf_image_classification", tmp_path, options, clusters("ring", 2))
    ends = [member.end() for member in members]
    assert all("loss: must be finite" in said for _, said in ends)
    assert 1 in [status for status, _ in ends]


def wait_for_steps(out: Path) -> None:
    """Until the measured phase has begun."""
    log = out / "steps.jsonl"
    until(lambda: log.exists() and '"measured"' in log.read_text(), "measured step")


def test_workers_end_together_when_one_is_terminated(tmp_path: Path) -> None:
    options = TINY | {"steps": 1}
    members = start(
        "tf_image_classification", tmp_path, options, clusters("ring", 2), until_terminated=True
    )
    wait_for_steps(members[0].out)
    members[1].process.terminate()
    results = [member.well().result() for member in members]
    counts = [len(member.steps()) for member in members]
    assert counts[0] == counts[1] > 1
    window = results[0]["marks"]["measured_end"] - results[0]["marks"]["warmup_end"]
    rate = results[0]["scalars"]["throughput"]["value"]
    assert rate == pytest.approx(4 * counts[0] / window)


def test_a_workload_goes_on_until_it_is_terminated(tmp_path: Path) -> None:
    process = Process("spin", tmp_path, {"steps": 2, "work": 100}, until_terminated=True)
    wait_for_steps(process.out)
    time.sleep(0.2)
    process.process.terminate()
    result = process.well().result()
    assert len(process.steps()) > 2
    assert math.isfinite(result["scalars"]["rate"]["value"])


def test_being_told_reaches_every_member(tmp_path: Path) -> None:
    items = [{"cluster": None, "affinity": None, "cpus": None}] * 2
    held = together(tmp_path, "spin", {"work": 100}, items, until_terminated=True)
    for number in range(2):
        wait_for_steps(held.out / f"member-{number}")
    held.process.terminate()
    held.well()
    assert all((held.out / f"member-{number}/result.json").exists() for number in range(2))


def test_a_member_that_fails_ends_the_others(tmp_path: Path) -> None:
    held = together(tmp_path, "spin", {"work": 1, "fail": "hang"}, [{}, {}])
    for number in range(2):
        log = held.out / f"member-{number}/steps.jsonl"
        until(lambda log=log: log.exists() and log.stat().st_size, "step")
    parent = held.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    status, said = held.end()
    assert (status, said) == (128 + 9, "spin: member 1: ended by SIGKILL")
    assert not Path(f"/proc/{children[0]}").exists()


@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [
        ("spin", {"cluster": clusters("ring", 1)[0]}, "cluster: spin shares no gradients"),
        ("spin", {"together": []}, "together: must be a list of members"),
        ("spin", {"together": [{"affinity": "0"}]}, "affinity: must be CPUs of this process"),
        ("spin", {"together": [{"affinity": [9999]}]}, "must be CPUs of this process"),
        ("spin", {"together": [{"cpu": 1}]}, "did you mean cpus?"),
        ("spin", {"until_terminated": 1}, "until_terminated: must be true or false"),
        ("mnist_dnn", {}, "data_dir: needs MNIST's four IDX files"),
    ],
)
def test_what_cannot_run_is_refused(
    tmp_path: Path, name: str, config: dict[str, Any], reason: str
) -> None:
    status, said = Process(name, tmp_path, {}, **config).end()
    assert status == 2
    assert reason in said


def test_a_transport_that_cannot_do_it_is_refused(tmp_path: Path) -> None:
    told = clusters("ps_sync", 1, 1)[0]
    given = TINY | {"transport": "tensorflow"}
    status, said = Process("tf_image_classification", tmp_path, given, cluster=told).end()
    assert status == 2
    assert "transport: tensorflow has ring, ps_async (example: transport: strata)" in said


def test_what_cannot_be_a_module_is_not_a_workload() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workloads", "_cluster", "--config", "x", "--out", "y"],
        env=ENVIRONMENT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
