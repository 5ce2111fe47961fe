"""YAML of a person's is read strictly: what could be misread is refused, in words and in bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from strata.errors import Refused

from controller import strict_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def test_plain_scalars_are_what_they_look_like() -> None:
    text = (
        "{text: quick, date: 2024-01-01, none: null, empty: , set: 0-3, size: 8G, whole: -12,"
        ' float: 1.5, small: 1e-3, true: true, quoted: "no", 2x: "010", list: [a, 1]}'
    )
    with pytest.raises(Refused, match="a name is text"):
        strict_yaml.parse(text, "x.yml")
    assert strict_yaml.parse(text.replace("true: true", "yes_: true"), "x.yml") == {
        **{"text": "quick", "date": "2024-01-01", "none": None, "empty": None, "set": "0-3"},
        **{"size": "8G", "whole": -12, "float": 1.5, "small": 0.001, "yes_": True},
        **{"quoted": "no", "2x": "010", "list": ["a", 1]},
    }


def test_anchors_and_merges_are_followed() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a"
    assert strict_yaml.parse(text, "x.yml")["b"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", ["line 3", "a name stands once", "'a'"]),
        ("a: {b: 1, 'b': 2}", ["a name stands once"]),
        ("a: &a {b: 1, b: 2}\nc: {<<: *a}", ["a name stands once"]),
        ("label: [no]", ["'no' means different things", "quotes"]),
        ("label: [On]", ["'On' means different things"]),
        ("no: 1", ["'no' means different things"]),
        ("1: a", ["a name is text", "quotes"]),
        ("[a]: b", ["a name is text"]),
        ("a: 010", ["'010' means different things"]),
        ("a: 0x10", ["means different things"]),
        ("a: 1:30", ["means different things"]),
        ("a: 1_000", ["means different things"]),
        ("a: .nan", ["finite numbers"]),
        ("a: -.inf", ["finite numbers"]),
        ("a: 1e999", ["a number is finite"]),
        ("a: " + "9" * 400, ["at most 15 digits"]),
        ("a: 0." + "9" * 400, ["at most 15 digits"]),
        ("a: !!python/object/apply:os.system [ls]", ["values have no tags"]),
        ("a: !!binary aGk=", ["values have no tags"]),
        ('a: "\\e[31mred"', ["no control characters", "U+001B"]),
        ('"\\a": 1', ["no control characters", "U+0007"]),
        ('a: "\\ud800"', ["no control characters", "U+D800"]),
        ('a: "\\u202eevil"', ["no control characters", "U+202E"]),
        ("a: \x1b[31m", ["is not YAML", "U+001B"]),
        ("a: [b", ["is not YAML", "line 1"]),
        ("a: b\n---\nc: d", ["is not YAML"]),
        ("a: *b", ["is not YAML", "undefined alias"]),
        ("a: &a [*a]", ["a value does not hold itself"]),
        ("a: " + "[" * 50 + "]" * 50, ["nested at most 20 deep"]),
        ("a: " + "[" * 100_000, ["nested at most 20 deep"]),
        ("{a: " * 5_000, ["nested at most 20 deep"]),
        (BOMB, ["at most 5000 values"]),
        ("a: [" + "x, " * 20_000 + "]", ["at most 5000 values"]),
        ("[a, b]", ["is a mapping", "'a'"]),
        ("", ["is a mapping", "None"]),
    ],
)
def test_what_could_be_misread_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        strict_yaml.parse(text, "x.yml")
    for word in ["x.yml", *words]:
        assert word in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("name: quick".encode("utf-16"), ["not text in UTF-8", "0xff"]),
        (b"\x80\x81\x82", ["not text in UTF-8"]),
        (b"\x7fELF\x00\x00\x00", ["is not YAML", "U+007F"]),
        (b"a: 1\n" * strict_yaml.BYTES, ["too large"]),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, words: list[str]) -> None:
    path = tmp_path / "x.yml"
    path.write_bytes(data)
    with pytest.raises(Refused) as refused:
        strict_yaml.read(path, "experiment")
    for word in ["x.yml", *words]:
        assert word in str(refused.value)


def test_a_mark_of_byte_order_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert strict_yaml.read(tmp_path / "x.yml", "experiment") == {"a": 1}


def test_what_is_no_file_is_refused_and_nothing_waits(tmp_path: Path) -> None:
    (tmp_path / "folder.yml").mkdir()
    os.mkfifo(tmp_path / "fifo.yml")
    (tmp_path / "loop.yml").symlink_to(tmp_path / "loop.yml")
    long = "x" * 300
    for name, words in (
        ("folder.yml", "is a folder"),
        ("fifo.yml", "no ordinary file"),
        ("loop.yml", "cannot be read"),
        (f"{long}.yml", "cannot be read"),
        ("folde.yml", "did you mean 'folder'"),
        ("nowhere/x.yml", "there is no experiment"),
    ):
        with pytest.raises(Refused, match=words):
            strict_yaml.read(tmp_path / name, "experiment")
    with pytest.raises(Refused, match="no ordinary file"):
        strict_yaml.read(Path("/dev/zero"), "experiment")
