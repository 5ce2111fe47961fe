"""How numbers are scaled and printed, and what a run declares of its metrics."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import workloads
from analysis import metrics
from analysis.metrics import Metric, Metrics
from controller.metrics import declared

CONTRACT = Path(__file__).parents[3] / "docs" / "results.md"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (123.456, "s", "123.5 s"),
        (0.0412, "s", "41.20 ms"),
        (0.0, "s", "0.000 s"),
        (2.5 * 2**30, "bytes", "2.500 GiB"),
        (100.0, "bytes", "0.098 KiB"),
        (1.234e12, "FLOP/s", "1.234 TFLOP/s"),
        (0.000_02, "s/transaction", "20.00 µs/transaction"),
        (0.002, "s/step", "2.000 ms/step"),
        (4.0 * 2**20, "bytes/step", "4.000 MiB/step"),
        (25_600_000.0, "1", "25,600,000"),
        (0.0, "1", "0.000"),
        (79.8, "images/s", "79.80 images/s"),
        (0.02, "images/s", "0.020 images/s"),
    ],
)
def test_a_number_has_four_digits_and_a_fitting_unit(value: float, unit: str, text: str) -> None:
    assert metrics.scale([value], unit).with_unit(value) == text


def test_a_column_has_one_scale_that_of_its_largest_number() -> None:
    scale = metrics.scale([0.5, 12.25, math.nan], "s")
    assert [scale.text(value) for value in (0.5, 12.25)] == ["0.50", "12.25"]


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_not_there_is_a_dash(value: float | None) -> None:
    assert metrics.scale([1.0], "s").text(value) == metrics.DASH


RATE = Metric("rate", "Rate", "hashes/s", "higher", headline=True)
ELAPSED = Metric("elapsed", "Elapsed", "s", "lower", headline=True)


def test_two_workloads_share_what_they_declare_alike_and_nothing_else() -> None:
    steps = replace(RATE, unit="steps/s")
    found = Metrics({"spin": [RATE, ELAPSED], "mnist_dnn": [steps, ELAPSED]})
    assert [found.column(workload, "rate") for workload in ("spin", "mnist_dnn")] == [
        "rate",
        "rate_mnist_dnn",
    ]
    assert found.column("mnist_dnn", "elapsed") == "elapsed"
    assert [(m.name, m.label, m.unit) for m in found] == [
        ("rate", "Rate", "hashes/s"),
        ("elapsed", "Elapsed", "s"),
        ("rate_mnist_dnn", "Rate (mnist_dnn)", "steps/s"),
    ]
    assert found.leads == ["rate", "rate_mnist_dnn"], "each workload is answered for"
    assert [m.name for m in found.headline] == ["rate", "rate_mnist_dnn", "elapsed"]


def test_every_declared_metric_stands_in_the_contract() -> None:
    text = CONTRACT.read_text()
    names = {
        metric["name"]
        for entry in declared(workloads.NAMES).values()
        for metric in entry["metrics"]
    }
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []
