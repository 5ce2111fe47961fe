"""Which stages a command asks for: site.yml and the library say the same."""

from __future__ import annotations

import pytest
import yaml
from strata.errors import Refused

from controller import stages
from tests.conftest import REPO


@pytest.mark.parametrize(
    ("tags", "skipped", "coming"),
    [
        (["all"], [], "provision deploy run collect report"),
        (["provision"], [], "provision"),
        (["deploy"], [], "provision deploy"),
        (["run"], [], "provision deploy run"),
        (["provision", "run"], [], "provision deploy run"),
        (["collect"], [], "collect"),
        (["collect", "report"], [], "collect report"),
        (["run", "report"], [], "provision deploy run report"),
        (["all"], ["report"], "provision deploy run collect"),
    ],
)
def test_a_stage_brings_along_what_it_stands_on(
    tags: list[str], skipped: list[str], coming: str
) -> None:
    assert stages.asked(tags, skipped) == coming.split()


def test_site_has_the_same_in_its_tags() -> None:
    plays = yaml.safe_load((REPO / "site.yml").read_text())
    tags = {play["ansible.builtin.import_playbook"]: set(play["tags"]) for play in plays}
    assert tags.pop("playbooks/preflight.yml") == {"always"}
    assert tags == {
        f"playbooks/{stage}.yml": {stage, *(s for s, on in stages.STANDS_ON.items() if stage in on)}
        for stage in stages.STANDS_ON
    }


@pytest.mark.parametrize(
    ("tags", "skipped", "words"),
    [
        (["deplyo"], [], "did you mean 'deploy'?"),
        (["all"], ["reprot"], "did you mean 'report'?"),
        (["all"], ["deploy"], "what a stage stands on is not skipped"),
        (["all"], ["run"], "--tags deploy: all that comes before run"),
    ],
)
def test_what_is_no_sound_command_is_refused(
    tags: list[str], skipped: list[str], words: str
) -> None:
    with pytest.raises(Refused) as refused:
        stages.asked(tags, skipped)
    assert words in str(refused.value)


def test_nothing_begins_in_the_middle() -> None:
    stages.check_begin(None, ["report"])
    with pytest.raises(Refused, match="--start-at-task 'Run it'"):
        stages.check_begin("Run it", [])
    with pytest.raises(Refused, match="--skip-tags always"):
        stages.check_begin(None, ["always"])
