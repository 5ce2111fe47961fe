"""Who takes part, where, and how they find each other."""

from __future__ import annotations

from typing import Any

import pytest
from strata import members
from strata.trial import program

from controller import levels


def trial(placement: str = "spread", network: str = "host", hosts: int = 2) -> dict[str, Any]:
    levels = {"distribution": "ps_sync", "placement": placement, "network": network}
    names = [f"n{i}" for i in range(1, hosts + 1)]
    return {"trial": "c-r1", "levels": levels, "members": members.roster(2, 1, names)}


def test_workers_and_servers_go_around_the_hosts() -> None:
    found = [(m["role"], m["index"], m["host"]) for m in trial()["members"]]
    assert found == [("worker", 0, "n1"), ("worker", 1, "n2"), ("server", 0, "n1")]
    assert len({m["port"] for m in trial()["members"]}) == 3


@pytest.mark.parametrize(
    ("asked", "workers", "server"),
    [
        (trial(), ["10.0.0.1:29400", "10.0.0.2:29401"], "10.0.0.1:29402"),
        (trial(network="bridge"), ["10.0.0.1:29400", "10.0.0.2:29401"], "10.0.0.1:29402"),
        (
            trial(network="docker_overlay"),
            ["c-r1-worker0:29400", "c-r1-worker1:29401"],
            "c-r1-server0:29402",
        ),
        (
            trial("packed", "bridge", 1),
            ["c-r1-worker0:29400", "c-r1-worker1:29401"],
            "c-r1-server0:29402",
        ),
        (trial("packed", "host", 1), ["10.0.0.1:29400", "10.0.0.1:29401"], "10.0.0.1:29402"),
        (trial("together", "bridge", 1), ["127.0.0.1:29400", "127.0.0.1:29401"], "127.0.0.1:29402"),
    ],
)
def test_peers_are_found_where_their_network_has_them(
    asked: dict[str, Any], workers: list[str], server: str
) -> None:
    addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    told = members.cluster(asked, asked["members"][1], addresses, "k")
    assert (told["workers"], told["servers"]) == (workers, [server])
    assert (told["role"], told["index"], told["listen"]) == ("worker", 1, 29401)


def test_a_program_for_each_member_or_one_for_all() -> None:
    assert [len(here) for here in members.programs("n1", trial())] == [1, 1]
    assert [len(here) for here in members.programs("n1", trial("together", hosts=1))] == [3]
    assert members.programs("n3", trial()) == []
    names = [members.name(trial(), member) for member in trial()["members"]]
    assert names == ["c-r1-worker0", "c-r1-worker1", "c-r1-server0"]
    one = trial("together", hosts=1)
    assert members.name(one, one["members"][0]) == "c-r1"


@pytest.mark.parametrize(
    ("cpus", "pinned"),
    [
        ([0, 1, 2, 3, 4, 5], [[0, 3, 4, 5], [1], [2]]),
        ([4, 5, 6], [[4], [5], [6]]),
        ([0, 1], [[0], [1], [0]]),
    ],
)
def test_members_have_cpus_of_their_own_and_the_chief_the_spare_ones(
    cpus: list[int], pinned: list[list[int]]
) -> None:
    assert members.pins(trial()["members"], cpus) == pinned


def test_what_is_no_option_of_the_workload_is_known_on_both_sides() -> None:
    assert set(program.NOT_OPTIONS) == {*levels.FACTORS, "workload"}


@pytest.mark.parametrize(
    ("cpus", "quota", "counted"),
    [("0-3,8", None, 5), ("0-3", 2.5, 2), ("0", 4.0, 1), (None, 0.5, 1), (None, None, None)],
)
def test_cpus_are_counted(cpus: str | None, quota: float | None, counted: int | None) -> None:
    assert program.count(cpus, quota) == counted
