"""Workloads from outside: a real process, what it leaves, how it fails."""

import gzip
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from peers import ENVIRONMENT, Process

import workloads
from workloads import _trace

TINY = {
    "model": "tiny",
    "classes": 10,
    "batch_size": 4,
    "steps": 5,
    "warmup_steps": 3,
    "probe": False,
}
MARKS = [
    "process",
    "imported",
    "built",
    "first_step_begin",
    "first_step_end",
    "warmup_end",
    "measured_end",
    "probe_begin",
    "probe_end",
    "end",
]


def command(name: str, folder: Path, options: dict[str, Any], **config: Any) -> list[str]:
    (folder / "config.json").write_text(json.dumps({"options": options} | config))
    return [
        sys.executable,
        "-m",
        "workloads",
        name,
        "--config",
        str(folder / "config.json"),
        "--out",
        str(folder / "out"),
    ]


def run(name: str, folder: Path, options: dict[str, Any], **config: Any) -> tuple[int, str]:
    """Exit status and what was said, of a workload that came to its end."""
    process = Process(name, folder, options, **config)
    return process.status(), process.said()


def result(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "out/result.json").read_text())


def steps(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out/steps.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    status, said = run(
        "make_images", folder, {"images": 6, "classes": 2, "width": 64, "height": 48}
    )
    assert status == 0, said
    return folder / "out/dataset"


def test_training_keeps_the_contract(tmp_path: Path) -> None:
    asked = TINY | {"probe": True, "trace_steps": 2}
    status, said = run("tf_image_classification", tmp_path, asked, cpus=1)
    assert status == 0, said
    found, rows = result(tmp_path), steps(tmp_path)
    assert (found["schema"], found["workload"]) == (2, "tf_image_classification")
    assert found["items"] == "images"
    assert list(found["marks"]) == MARKS
    assert list(found["marks"].values()) == sorted(found["marks"].values())
    declared = {m.name for m in workloads.workload("tf_image_classification").METRICS}
    # The rest is of real data, of parameter servers, and of GPUs.
    rest = {"decode_capacity", "updates", "counted_steps", *(m.name for m in _trace.METRICS)}
    assert set(found["scalars"]) == declared - rest
    assert [flag["name"] for flag in found["flags"]] == ["no_device"]
    assert b"/host:CPU" in gzip.decompress((tmp_path / "out" / _trace.FILE).read_bytes())
    assert not (tmp_path / "out/profile").exists()
    assert all(math.isfinite(s["value"]) and s["unit"] for s in found["scalars"].values())
    assert found["environment"]["threads"] == {"intra_op": 1, "inter_op": 1, "data": 0}
    assert [r["step"] for r in rows] == list(range(1, 9))
    assert [r["phase"] for r in rows] == ["warmup"] * 3 + ["measured"] * 5
    assert all(
        set(r)
        == {
            "step",
            "phase",
            "worker",
            "mono",
            "wall",
            "items",
            "loss",
            "input_s",
            "compute_s",
            "exchange_s",
            "duration_s",
        }
        for r in rows
    )
    assert all(r["items"] == 4 and r["worker"] == 0 for r in rows)
    assert all(r["input_s"] + r["compute_s"] == pytest.approx(r["duration_s"]) for r in rows)
    assert rows[0]["mono"] >= found["marks"]["first_step_begin"]
    assert rows[3]["mono"] >= found["marks"]["warmup_end"]
    assert rows[-1]["loss"] == found["scalars"]["loss_last"]["value"]


def test_real_data_trains_and_says_what_the_input_can_do(tmp_path: Path, images: Path) -> None:
    options = TINY | {"data": "real", "image_size": 32, "probe": True, "batch_size": 8}
    status, said = run("tf_image_classification", tmp_path, options, data_dir=str(images))
    assert status == 0, said  # 6 images, 64 needed: they repeat
    scalars = result(tmp_path)["scalars"]
    assert scalars["decode_capacity"]["value"] > 0
    bound = scalars["decode_capacity"]["value"] < 1.5 * scalars["throughput"]["value"]
    assert any(f["name"] == "input_bound" for f in result(tmp_path)["flags"]) == bound


def test_a_loss_that_is_not_finite_ends_the_trial(tmp_path: Path) -> None:
    status, said = run(
        "tf_image_classification", tmp_path, TINY | {"learning_rate": 1e38, "steps": 50}
    )
    assert status == 1
    assert "loss: must be finite" in said.splitlines()[-1]
    assert not (tmp_path / "out/result.json").exists()
    assert steps(tmp_path)


@pytest.mark.parametrize(
    ("options", "config", "reason"),
    [
        ({"batchsize": 4}, {}, "did you mean batch_size?"),
        ({"batch_size": "4"}, {}, "must be of type int (example: batch_size: 32); given: '4'"),
        ({"batch_size": True}, {}, "batch_size: must be of type int"),
        ({"model": "resnet5"}, {}, "did you mean resnet50?"),
        ({"model": "alexnet", "image_size": 32}, {}, "image_size: must be at least 95 for alexnet"),
        ({"warmup_steps": 0}, {}, "warmup_steps: must be at least 1"),
        ({}, {"cpu": 2}, "did you mean cpus?"),
        ({}, {"cpus": 0}, "cpus: must be a whole number"),
        ({"data": "real"}, {}, "data_dir: data: real needs a folder"),
        ({"data": "real"}, {"data_dir": "EMPTY"}, "has neither"),
        ({"data": "real"}, {"data_dir": "BROKEN"}, "bad.jpg"),
    ],
)
def test_bad_input_is_refused(
    tmp_path: Path, options: dict[str, Any], config: dict[str, Any], reason: str
) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "BROKEN/cat").mkdir(parents=True)
    (tmp_path / "BROKEN/cat/bad.jpg").write_bytes(b"\xff\xd8 and then nothing of a picture")
    given = {k: str(tmp_path / v) if k == "data_dir" else v for k, v in config.items()}
    status, said = run("tf_image_classification", tmp_path, TINY | options, **given)
    assert status == 2, said
    # Not the last line: the decoder's own threads may complain after it.
    assert reason in said
    assert not (tmp_path / "out/result.json").exists()


def test_an_unknown_workload_is_refused(tmp_path: Path) -> None:
    status, said = run("spinn", tmp_path, {})
    assert status == 2
    assert "did you mean spin?" in said


def test_spin_counts_hashes(tmp_path: Path) -> None:
    assert run("spin", tmp_path, {"steps": 4, "warmup_steps": 2, "work": 100})[0] == 0
    assert result(tmp_path)["scalars"]["rate"]["value"] > 0
    assert [r["phase"] for r in steps(tmp_path)] == ["warmup"] * 2 + ["measured"] * 4
    assert result(tmp_path)["items"] == "hashes"
    assert {(r["items"], "loss" in r) for r in steps(tmp_path)} == {(100, False)}


def test_spin_exits_as_asked(tmp_path: Path) -> None:
    status, said = run("spin", tmp_path, {"work": 1, "fail": "exit"})
    assert status == 1
    assert said.splitlines()[-1] == "spin: failed as asked (fail: exit)"


def test_a_killed_trial_leaves_its_steps(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("spin", tmp_path, {"work": 1, "fail": "hang"}), env=ENVIRONMENT
    )
    log = tmp_path / "out/steps.jsonl"
    until = time.monotonic() + 30
    while not (log.exists() and log.stat().st_size) and time.monotonic() < until:
        time.sleep(0.05)
    assert process.poll() is None
    process.kill()
    process.wait()
    assert [r["phase"] for r in steps(tmp_path)] == ["warmup"] * 10
    assert not (tmp_path / "out/result.json").exists()


def test_spin_takes_memory_until_it_is_refused(tmp_path: Path) -> None:
    limit = 400 * 2**20
    code = (
        f"import resource, runpy; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}));"
        "runpy.run_module('workloads', run_name='__main__', alter_sys=True)"
    )
    arguments = command("spin", tmp_path, {"work": 1, "fail": "memory"})[3:]
    assert resource.getrlimit(resource.RLIMIT_AS)[1] in (-1, resource.RLIM_INFINITY)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=ENVIRONMENT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "MemoryError" in done.stderr.splitlines()[-1]


def test_images_are_the_same_bytes_for_the_same_seed(tmp_path: Path, images: Path) -> None:
    again = {"images": 6, "classes": 2, "width": 64, "height": 48}
    assert run("make_images", tmp_path, again)[0] == 0
    ours = tmp_path / "out/dataset"
    names = sorted(p.relative_to(images) for p in images.rglob("*"))
    assert sum(p.suffix == ".jpg" for p in names) == 6
    assert names == sorted(p.relative_to(ours) for p in ours.rglob("*"))
    assert all(
        (images / n).read_bytes() == (ours / n).read_bytes()
        for n in names
        if (images / n).is_file()
    )
    assert run("make_images", tmp_path, again)[0] == 2  # a data set is not overwritten
