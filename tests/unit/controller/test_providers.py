"""Who makes which hosts, on paper; and that looking at them later changes nothing of the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused

from controller import plan, providers
from controller.experiment import Experiment

EXPERIMENT = {
    **{"name": "t", "title": "t", "workload": "spin", "baseline": {"runtime": "native"}},
    **{"factors": {"runtime": ["native", "docker"]}, "repeats": 2, "control": False},
}


def variables(provider: Any = None, *groups: str) -> dict[str, Any]:
    given = {} if provider is None else {"strata_provider": provider}
    return {**given, "group_names": [*(groups or ("bare_metal", "native")), "testbed"]}


def test_hosts_are_grouped_by_who_makes_them_in_their_order() -> None:
    made = variables("rehearsal")
    assert providers.of({"b": made, "there": variables(), "a": made}) == {"rehearsal": ["b", "a"]}
    assert providers.of({"there": variables()}) == {}


@pytest.mark.parametrize("given", ["rehersal", "docker", "", 7, ["rehearsal"]])
def test_what_makes_no_hosts_is_refused(given: Any) -> None:
    with pytest.raises(Refused, match="node1: strata_provider names what makes") as refused:
        providers.of({"node1": variables(given)})
    assert f"example: strata_provider: {providers.known()[0]}" in str(refused.value)


def test_a_provider_is_a_role_with_all_entry_points(tmp_path: Path) -> None:
    for role, entries in (("cloud", providers.ENTRIES), ("half", providers.ENTRIES[:3])):
        (tmp_path / role / "tasks").mkdir(parents=True)
        for entry in entries:
            (tmp_path / role / "tasks" / f"{entry}.yml").touch()
    assert providers.known(tmp_path) == ["cloud"]
    assert "rehearsal" in providers.known()


def test_a_host_that_is_not_there_says_what_it_will_be() -> None:
    with pytest.raises(Refused, match="is in the group of its substrate") as refused:
        providers.of({"node1": variables("rehearsal", "native")})
    assert "bare_metal: {hosts: {node1: }}" in str(refused.value)


def made(*missing: str) -> plan.Plan:
    why = dict.fromkeys(missing, "the distribution has no such package")
    hosts = [plan.Host(name, "vm", ("native", "docker"), 2, why) for name in ("a", "b")]
    return plan.make(Experiment.model_validate(EXPERIMENT), hosts)


def test_a_plan_that_changes_with_the_look_is_refused_with_both() -> None:
    providers.check_same(made(), made(), ["a", "b"])
    with pytest.raises(Refused, match="plan that was made before they were there") as refused:
        providers.check_same(made(), made("docker"), ["a", "b"])
    before, now = refused.value.given.splitlines()
    assert before == "before: 4 slots, 2 cells, on a, b"
    assert "now: 2 slots, 1 cells, on a, b; left out docker on vm: the distribution" in now
    assert "playbooks/teardown.yml" in refused.value.then
