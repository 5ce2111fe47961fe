"""A setting that nothing reads is refused, with the nearest that there is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from strata.errors import Refused

from controller import settings


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("strata_slcie", "strata_slice"),
        ("strata_adress", "strata_address"),
        ("strata_planned", "strata_"),
        ("rehearsal_nodse", "rehearsal_nodes"),
        ("docker_overlay_subent", "docker_overlay_subnet"),
        ("workload_image_mirrors", "workload_image_mirror"),
    ],
)
def test_unknown_settings_are_refused(name: str, near: str) -> None:
    with pytest.raises(Refused, match=f"there is no setting '{name}'") as refused:
        settings.check(["ansible_user", name])
    assert near in refused.value.then


def test_what_may_be_anybodys_is_let_be() -> None:
    settings.check([*settings.known(), "docker_users", "host_name", "state", "ansible_become"])


def test_a_new_role_brings_its_prefix_with_it(tmp_path: Path) -> None:
    assert set(settings.ANYBODYS) < {path.name for path in settings.ROLES.iterdir()}
    for name in ("docker", "some_overlay"):
        (tmp_path / name).mkdir()
    assert settings.prefixes(tmp_path) == ("some_overlay_",)


@pytest.mark.parametrize("name", ["preflight", "rehearse", "teardown"])
def test_a_playbook_asks_before_anything_else(name: str) -> None:
    """Later, what plays have registered would be taken for a user's."""
    plays = yaml.safe_load((settings.ROLES.parent / f"playbooks/{name}.yml").read_text())
    assert "strata_settings" in plays[0]["tasks"][0]
