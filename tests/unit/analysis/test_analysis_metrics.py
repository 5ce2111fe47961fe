"""How numbers are scaled and printed, and what is known of each metric."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis import metrics

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


def test_a_metric_nobody_knows_is_shown_and_compared_with_nothing() -> None:
    found = metrics.get("fsync_latency", "s")
    assert (found.label, found.unit, found.better) == ("Fsync latency", "s", "")


def test_unknown_metrics_come_after_the_known_ones() -> None:
    assert metrics.ordered(["zeta", "alpha", "elapsed", "throughput"]) == [
        "throughput",
        "elapsed",
        "alpha",
        "zeta",
    ]


def test_every_metric_of_the_registry_stands_in_the_contract() -> None:
    """All but the one that the analysis makes itself."""
    text = CONTRACT.read_text()
    assert [n for n in metrics.REGISTRY if f"`{n}`" not in text] == ["first_over_later"]
