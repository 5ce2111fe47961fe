"""The kernels of HKBU 2017 compute what they are named after, and tell how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("tensorflow")

import workloads  # noqa: E402
from workloads import _probe, device_bandwidth  # noqa: E402
from workloads._options import BadInputError  # noqa: E402
from workloads._output import Context, StepLog  # noqa: E402

SCALE = {"matmul": 0.001, "convolution": 0.002, "histogram": 0.001, "transpose": 0.002}


@pytest.mark.parametrize("test", [*SCALE, "device_to_device"])
def test_each_says_how_near_it_came(
    test: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_probe, "NUMBERS", 2**16)
    monkeypatch.setattr(_probe, "SIZES", {"cpu": 128})
    monkeypatch.setattr("workloads._tensorflow.configure", lambda *_: None)  # already running
    options = device_bandwidth.Options(test=test, scale=SCALE.get(test, 0.001), calls=3)
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context("d", tmp_path, steps, metrics=device_bandwidth.METRICS)
        device_bandwidth.run(options, context)
    values = {name: scalar["value"] for name, scalar in context.scalars.items()}
    flop, moved = device_bandwidth.work(options)
    assert values["bandwidth"] == pytest.approx(moved / values["call_time"])
    done = values["flops"] if test == "matmul" else values["bandwidth"]
    assert values["of_bound"] == pytest.approx(done / values["bound"])
    own = {"convolution": {"flops", "pixels"}, "matmul": {"flops"}, "histogram": {"values"}}
    assert set(values) & {"flops", "pixels", "values"} == own.get(test, set())
    assert bool(flop) == ("flops" in values)


def test_they_compute_what_they_are_named_after() -> None:
    def computed(**asked: Any) -> Any:
        return device_bandwidth.prepared(device_bandwidth.Options(**asked))().numpy()

    counted = computed(test="histogram", bins="64", scale=0.001)
    assert counted.shape == (64,) and counted.sum() == 67_109
    assert counted.min() > 800, "each bin has one in 64 of them, more or less"
    matrix = computed(test="transpose", scale=0.001)
    same = computed(test="transpose", scale=0.001)
    assert matrix.shape == (8, 8) and (matrix == same).all() and (matrix != matrix.T).any()
    image = computed(test="convolution", scale=0.002)
    assert image.shape == (1, 37, 37, 1)
    assert computed(test="matmul", scale=0.001).shape == (23, 12)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"test": "host_to_device"}, "device: must be gpu for host_to_device"),
        ({"scale": 2.0}, "from 0.001 to 1"),
        ({"bins": "128"}, "must be one of 64, 256"),
    ],
)
def test_what_no_device_can_do_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        workloads.options("device_bandwidth").parse(given)
