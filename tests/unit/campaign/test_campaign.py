"""Campaign files: what they may say, and what starts them at boot."""

from __future__ import annotations

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
        ({"runs": [{**RUN, "retry": ["hostlost"]}]}, "did you mean 'host_lost'"),
        ({"runs": [{**RUN, "time_limit": "long"}]}, "given: 'long'"),
        ({"runs": [{**RUN, "attempts": 0}]}, "runs.0.attempts"),
        ({"runs": [{**RUN, "atempts": 1}]}, "did you mean 'attempts'"),
        ({"runs": []}, "runs: "),
        ({"name": "Two Words"}, "name: "),
        ({"name": "x" * 65}, "name: "),
        ({"tme_limit": "1d"}, "did you mean 'time_limit'"),
        ({"time_limit": "soon"}, "given: 'soon'"),
    ],
)
def test_bad_input_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as refused:
        definition.load(write(tmp_path, **changes))
    assert words in str(refused.value)


def test_a_missing_file_is_refused_with_the_nearest(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path)
    assert main(["run", str(tmp_path / "d.yml")]) == 2
    assert "c.yml" in capsys.readouterr().err


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
