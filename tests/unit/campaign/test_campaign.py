"""Campaign files: what they may say, and what starts them at boot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.errors import Refused

from campaign import boot, definition
from campaign.__main__ import main

RUN = {"experiment": "quick", "slice": "smoke", "testbed": "inventories/local"}
REPO = Path(__file__).parents[3]


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "c.yml"
    path.write_text(yaml.safe_dump({"name": "c", "runs": [RUN], **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runs": [{**RUN, "experiment": "quik"}]}, "did you mean 'quick'"),
        ({"runs": [{**RUN, "slice": "smok"}]}, "did you mean 'smoke'"),
        ({"runs": [{**RUN, "testbed": "inventories/locl"}]}, "did you mean 'inventories/local'"),
        ({"runs": [{**RUN, "testbed": "x" * 5000}]}, "a testbed is an inventory"),
        ({"runs": [{**RUN, "retry": ["hostlost"]}]}, "did you mean 'host_lost'"),
        ({"runs": [{**RUN, "time_limit": "long"}]}, "given: 'long'"),
        ({"runs": [{**RUN, "attempts": 0}]}, "runs.0.attempts"),
        ({"runs": [{**RUN, "atempts": 1}]}, "did you mean 'attempts'"),
        ({"runs": []}, "runs: "),
        ({"name": "Two Words"}, "name: "),
        ({"name": "x" * 65}, "name: "),
        ({"runs": [{**RUN, "variables": {"strata_slcie": "x"}}]}, "did you mean 'strata_slice'"),
        ({"tme_limit": "1d"}, "did you mean 'time_limit'"),
        ({"time_limit": "soon"}, "given: 'soon'"),
    ],
)
def test_bad_input_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as refused:
        definition.load(write(tmp_path, **changes))
    assert words in str(refused.value)


def test_it_is_read_as_strictly_as_an_experiment(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text() + "name: d\n")
    with pytest.raises(Refused, match="a name stands once"):
        definition.load(path)


def test_a_missing_file_is_refused_with_the_nearest(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path)
    assert main(["run", str(tmp_path / "d.yml")]) == 2
    assert "known: c" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"\x00\xff\xfe"),
        lambda path: path.write_bytes("name: c\n".encode("utf-16")),
        lambda path: path.write_text("name: c\ntime_limit: .nan\n"),
        lambda path: path.write_text("name: c\nname: d\n"),
        lambda path: path.write_text("[" * 10_000),
        lambda path: path.write_text("- a\n"),
        lambda path: path.write_text(""),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.symlink_to(path.name)),
        lambda path: write(path.parent, name="\x1b[2J"),
    ],
)
@pytest.mark.parametrize("command", ["run", "status"])
def test_what_is_no_campaign_is_refused_in_words(
    tmp_path: Path, capsys: Any, damage: Callable[[Path], object], command: str
) -> None:
    path = write(tmp_path)
    damage(path)
    assert main([command, str(path), f"--results={tmp_path}"]) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told and "\x1b" not in told


def test_the_shipped_campaign_is_good() -> None:
    for path in (REPO / "campaigns").glob("*.yml"):
        definition.load(path)


def test_every_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    found = definition.load(write(tmp_path, runs=[RUN, RUN]))
    assert [found.results(n) for n in (0, 1)] == ["c-01-quick-smoke", "c-02-quick-smoke"]


def test_what_starts_it_at_boot_names_this_checkout(tmp_path: Path) -> None:
    lines = boot.lines("c", tmp_path / "c.yml", tmp_path)
    assert f"WorkingDirectory={tmp_path}" in lines
    assert any(line.startswith("@reboot cd ") for line in lines)
    assert any("-m campaign run" in line and line.startswith("ExecStart=") for line in lines)
