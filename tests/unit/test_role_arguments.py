"""Each role says what it takes: its defaults and its argument specification say the same.

What a play must give is required, and has no default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from campaign.definition import CAUSES
from tests.conftest import REPO

ROLES = sorted(path for path in (REPO / "roles").iterdir() if path.is_dir())


@pytest.fixture(params=ROLES, ids=lambda role: role.name)
def role(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def defaults(role: Path) -> dict[str, Any]:
    found = yaml.safe_load((role / "defaults/main.yml").read_text())
    return {name: value for name, value in found.items() if not name.startswith("__")}


@pytest.fixture
def arguments(role: Path) -> dict[str, dict[str, Any]]:
    """Of all of the role's entry points, those that need not be given."""
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    every = {name: option for spec in specs.values() for name, option in spec["options"].items()}
    return {name: option for name, option in every.items() if not option.get("required")}


def test_an_argument_has_a_type_and_a_default_unless_the_play_must_give_it(
    defaults: dict[str, Any], arguments: dict[str, dict[str, Any]]
) -> None:
    given = {name for name, argument in arguments.items() if argument.get("required")}
    assert arguments.keys() - given == defaults.keys()
    assert [name for name, argument in arguments.items() if "type" not in argument] == []


def test_a_default_that_is_told_is_the_one_in_force(
    defaults: dict[str, Any], arguments: dict[str, dict[str, Any]]
) -> None:
    told = {
        name: argument["default"] for name, argument in arguments.items() if "default" in argument
    }
    assert told == {name: defaults[name] for name in told}


def test_a_trial_can_be_tried_again_for_every_cause_that_a_record_may_have() -> None:
    specs = yaml.safe_load((REPO / "roles/strata/meta/argument_specs.yml").read_text())
    options = specs["argument_specs"]["check"]["options"]
    assert options["strata_retry"]["choices"] == list(CAUSES)


def test_what_installs_packages_waits_for_who_else_does() -> None:
    """A host that was just made updates itself: longer than the minute that the module waits."""
    texts = [
        path.read_text() for room in ("roles", "playbooks") for path in (REPO / room).rglob("*.yml")
    ]
    installs = sum(text.count("ansible.builtin.apt:\n") for text in texts)
    assert installs > 0
    assert sum(text.count("lock_timeout: 600\n") for text in texts) == installs
