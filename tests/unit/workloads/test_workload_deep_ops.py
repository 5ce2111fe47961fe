"""Kernels compute what they are named after, and their arithmetic is counted right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("tensorflow")

import workloads  # noqa: E402
from workloads import _probe, deep_ops  # noqa: E402
from workloads._options import BadInputError  # noqa: E402
from workloads._output import Context, StepLog  # noqa: E402
from workloads.deep_ops.functions import prepared  # noqa: E402
from workloads.deep_ops.kernels import parse  # noqa: E402


def computed(name: str, direction: str = "forward") -> tuple[list[Any], Any]:
    """The operands, and what comes out."""
    call = prepared(parse(name), direction, "float32", "cpu", seed=1)
    found = call()
    results = found if isinstance(found, list | tuple) else [found]
    return [operand.numpy() for operand in call.operands], [part.numpy() for part in results]


@pytest.mark.parametrize(
    ("name", "direction", "flop", "values"),
    [
        ("gemm 2x3x4 tn", "forward", 2 * 2 * 3 * 4, 8 + 12 + 6),
        # 5x6 with 3x3, padding 1, stride 2: 3x3
        ("conv 2x5x6x3 4x3x3 p1x1 s2x2", "backward_data", 2 * 2 * 4 * 9 * 27, 180 + 108 + 72),
        ("lstm 8x2x5", "forward", 2 * 4 * 64 * 2 * 5, 256 + 160),
        ("gru 8x2x5", "training", 3 * 2 * 3 * 64 * 2 * 5, 3 * (192 + 160)),
    ],
)
def test_arithmetic_by_hand(name: str, direction: str, flop: int, values: int) -> None:
    kernel = parse(name)
    assert (kernel.flop(direction), kernel.values(direction)) == (flop, values)
    assert kernel.smallest().flop(direction) <= flop / 8


@pytest.mark.parametrize("how", ["nn", "tn", "nt", "tt"])
def test_a_gemm_is_a_product(how: str) -> None:
    (a, b), (found,) = computed(f"gemm 3x4x5 {how}")
    expected = (a.T if how[0] == "t" else a) @ (b.T if how[1] == "t" else b)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_directions_of_a_convolution_are_one_bilinear_form() -> None:
    """sum(y * conv(x, f)) is linear in each; its gradients are the backward directions."""
    name = "conv 1x5x4x2 3x3x2 p1x0 s2x1"
    (x, f), (y,) = computed(name)
    by_hand = np.zeros_like(y)
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    for row, column in np.ndindex(y.shape[1:3]):
        window = padded[0, 2 * row : 2 * row + 3, column : column + 2, :]
        by_hand[0, row, column] = np.tensordot(window, f, 3)
    assert y == pytest.approx(by_hand, abs=1e-6)
    call = prepared(parse(name), "backward_data", "float32", "cpu", 1)
    form = float((y * by_hand).sum())
    assert float((call.function(f, y).numpy() * x).sum()) == pytest.approx(form, rel=1e-4)
    call = prepared(parse(name), "backward_filter", "float32", "cpu", 1)
    assert float((call.function(x, y).numpy() * f).sum()) == pytest.approx(form, rel=1e-4)


def sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))


def cells(cell: str, weights: Any, sequence: Any) -> Any:
    """The states of a layer, from the definitions of its cells."""
    state = memory = np.zeros_like(sequence[0])
    found = []
    for entered in sequence:
        parts = np.split(state @ weights, weights.shape[1] // weights.shape[0], axis=1)
        if cell == "vanilla":
            state = np.maximum(0, parts[0] + entered)
        elif cell == "lstm":
            kept, forgotten, new, shown = (part + entered for part in parts)
            memory = sigmoid(forgotten) * memory + sigmoid(kept) * np.tanh(new)
            state = sigmoid(shown) * np.tanh(memory)
        else:
            update = sigmoid(parts[1] + entered)
            new = np.tanh(entered + sigmoid(parts[0] + entered) * parts[2])
            state = (1 - update) * new + update * state
        found.append(state)
    return np.array(found)


@pytest.mark.parametrize("cell", ["vanilla", "lstm", "gru"])
def test_cells_are_those_of_the_books_and_so_are_their_gradients(cell: str) -> None:
    (weights, sequence, slope), found = computed(f"{cell} 3x2x4", "training")
    assert found[0] == pytest.approx(cells(cell, weights, sequence), abs=1e-6)
    away = np.zeros_like(weights)
    away[1, 2] = 1e-2
    rise = cells(cell, weights + away, sequence) - cells(cell, weights - away, sequence)
    assert found[1][1, 2] == pytest.approx((rise * slope).sum() / 2e-2, rel=0.02, abs=1e-5)


@pytest.mark.parametrize(
    "kernel", ["gemm 64x32x48 nt", "conv 1x8x8x2 4x3x3 p1x1 s1x1", "gru 4x2x30"]
)
def test_a_trial_says_what_bound_it(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_probe, "NUMBERS", 2**16)
    monkeypatch.setattr(_probe, "SIZES", {"cpu": 128})
    found = workloads.workload("deep_ops")
    asked = {"kernel": kernel, "calls": 5, "warmup_calls": 2, "dtype": "bfloat16"}
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context("deep_ops", tmp_path, steps, metrics=found.METRICS)
        monkeypatch.setattr("workloads._tensorflow.configure", lambda *_: None)  # already running
        found.run(found.Options.parse(asked), context)
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [row["phase"] for row in rows] == 2 * ["warmup"] + 5 * ["measured"]
    values = {name: scalar["value"] for name, scalar in context.scalars.items()}
    assert set(values) == {metric.name for metric in found.METRICS}
    assert values["flops"] == pytest.approx(values["flop"] / values["call_time"])
    assert values["of_roof"] == pytest.approx(values["flops"] / values["roof"])
    # Which of them it is depends on what else the machine does.
    launched = values["launch_share"] > deep_ops.LAUNCHES
    assert values["launch_share"] > 0
    assert (context.environment["bound"] == "launches") == launched
    assert context.environment["bound"] in ("launches", "cores", "memory")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"kernel": "gemm 2x3 nn"}, "must be a gemm, a conv"),
        ({"kernel": "gemm 2x0x3 nn"}, "something to compute"),
        ({"kernel": "conv 1x4x4x1 1x5x5 p0x0 s1x1"}, "something to compute"),
        ({"kernel": "gru 8x2x5", "direction": "backward_data"}, "one of forward, training for gru"),
        ({"direction": "training"}, "one of forward for gemm"),
    ],
)
def test_what_is_no_kernel_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        workloads.options("deep_ops").parse(given)
