"""Numbers as words, and plain-text tables."""

from __future__ import annotations

import math
import re

import pytest

from analysis import text


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.92, f"{text.MINUS}8.0 %"),
        (1.0, "0.0 %"),
        (0.99999, "0.0 %"),
        (1.0004, "+0.04 %"),
        (1.035, "+3.5 %"),
        (3.0, "+200 %"),
        (13.5, "+1,250 %"),
        (math.nan, "\N{EN DASH}"),
        (None, "\N{EN DASH}"),
    ],
)
def test_percent(ratio: float | None, words: str) -> None:
    assert text.percent(ratio) == words


def test_change_names_its_interval_where_there_is_one() -> None:
    assert text.change(0.996, 0.979, 1.012) == (f"{text.MINUS}0.4 % ({text.MINUS}2.1 … +1.2 %)")
    assert text.change(1.1, math.nan, math.nan) == "+10.0 %"


def test_quantity_chooses_a_scale() -> None:
    assert text.quantity(2.5 * 2**30, "bytes") == "2.500 GiB"
    assert text.quantity(math.nan, "s") == "\N{EN DASH}"


def test_table_aligns_and_stays_within_its_width() -> None:
    lines = text.table(("what", "n"), [("a" * 300 + "z", "1"), ("b", "22")], {1})
    assert max(map(len, lines)) == text.WIDTH
    assert lines[2].endswith("az   1")
    assert "a…a" in lines[2]
    assert lines[3].startswith("b ")
    assert lines[3].endswith("  22")


def test_a_table_that_wraps_loses_nothing() -> None:
    case = (
        "batch_size 32 · synthetic · inception_v3 · mixed_bfloat16 · adam · 0.001 · xla · threads 8"
    )
    lines = text.table(
        ("platform", "case", "n"), [("vm/docker/" + "x" * 30, case, "4")], {2}, wrap=True
    )
    assert max(map(len, lines)) <= text.WIDTH
    shown = " ".join(" ".join(lines[2:]).split())
    assert "…" not in shown
    assert all(word in shown for word in case.split())


def test_an_interval_shows_its_ends_its_middle_and_no_change() -> None:
    lines = text.intervals(
        ["docker", "control"], [(0.90, 0.92, 0.94), (0.99, 1.0, 1.02)], 0.9, 1.02
    )
    assert lines[0].startswith("docker   ├") and lines[0].count("●") == 1
    assert lines[0].index("┤") < lines[0].index("│"), "no change lies outside"
    assert lines[1].index("├") < lines[1].index("●") == lines[0].index("│") < lines[1].index("┤")
    assert lines[2].split() == [f"{text.MINUS}10.0", "%", "+2.0", "%"]
    assert max(map(len, lines)) <= text.WIDTH


EVIL = "a|b_{c}$&%#~^<\\input{x}\x1b[31m"


def test_a_markdown_table_keeps_its_columns_whatever_is_in_it() -> None:
    lines = text.markdown(("case", "n"), [(EVIL, "1")], {1})
    assert lines[:2] == ["| case | n |", "| --- | ---: |"]
    assert re.sub(r"\\.", "", lines[2]).count("|") == 3 and "\x1b" not in lines[2]


def test_a_latex_table_has_no_command_but_ours() -> None:
    lines = text.latex(("case", "n"), [(EVIL, "1"), (f"{text.MINUS}2 %", "3")], {1})
    assert lines[0] == r"\begin{tabular}{lr}" and lines[-1] == r"\end{tabular}"
    assert lines[4].startswith(r"a|b\_\{c\}\$\&\%\#\textasciitilde{}\textasciicircum{}\textless{}")
    assert r"\textbackslash{}input" in lines[4] and "\x1b" not in lines[4]
    assert lines[5] == r"$-$2 \% & 3 \\"


def test_a_row_keeps_its_name_however_wide_its_numbers_are() -> None:
    intervals = [f"{n}.000 s/GB (-39.83 ... 33.28)" for n in range(4)]
    head = ("network", *(f"part {n}" for n in range(4)))
    for wrap in (False, True):
        lines = text.table(head, [("bridge", *intervals)], {1, 2, 3, 4}, wrap=wrap)
        assert all(len(line) <= text.WIDTH for line in lines)
        assert lines[2].startswith("bridge ")
