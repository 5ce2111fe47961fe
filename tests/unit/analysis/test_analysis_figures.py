"""Figures: one colour for each arm, the same bytes each time, nothing from outside."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from synthetic import DOCKER, NATIVE, Synthetic, cells

from analysis import figures, load, tables


def drawn(folder: Path) -> list[str]:
    """All panels of a run of two platforms and two models."""
    made = Synthetic(cells(NATIVE, DOCKER, models=("alexnet", "resnet50")))
    built = tables.build(load.load(made.write(folder)))
    tint, throughput = figures.colours(built.order), built.metric("throughput")
    return [
        *figures.changes(built.comparisons, [throughput], tint),
        *figures.values(built.usable, built.summary, throughput, tint),
        *figures.steps(built.steps, built.usable, tint),
        *figures.phases(built.usable, built.order),
        *figures.usage(built.usage, built.usable, tint),
    ]


def test_panels_are_whole_svg_and_the_same_each_time(tmp_path: Path) -> None:
    first, second = drawn(tmp_path / "one"), drawn(tmp_path / "two")
    assert first == second
    assert len(first) == 1 + 2 + 2 + 2 + 4
    for panel in first:
        root = ElementTree.fromstring(panel)  # noqa: S314 - made here
        assert root.get("viewBox")
        assert root.get("width") is None
        assert root.get("height") is None


def test_an_arm_has_one_colour_and_the_baseline_the_first() -> None:
    tint = figures.colours(["native", "docker", "vm"])
    assert tint["native"] == figures.PALETTE[0]
    assert len(set(tint.values())) == 3
