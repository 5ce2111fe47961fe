"""Who takes part, where, and how they find each other."""

from __future__ import annotations

from typing import Any

import pytest
from strata import members
from strata.cell import Cell, Resources
from strata.trial import program

from workloads._peers import Peers


def member(role: str, index: int, host: str, **ports: int) -> dict[str, Any]:
    listed = [{"name": k, "protocol": "tcp", "number": number} for k, number in ports.items()]
    return {"role": role, "index": index, "host": host, "ports": listed}


def trial(placement: str = "spread", network: str = "host", hosts: int = 2) -> dict[str, Any]:
    levels = {
        **{"substrate": "vm", "runtime": "docker", "network": network, "label": ""},
        **{"workload": "mnist_dnn", **dict.fromkeys(Resources.names())},
        **{"distribution": "ps_sync", "workers": 2, "servers": 1, "placement": placement},
        "beside": None,
    }
    second = "n2" if hosts > 1 else "n1"
    roster = [
        member("worker", 0, "n1", peers=29400),
        member("worker", 1, second, peers=29401),
        member("server", 0, "n1", peers=29402),
    ]
    return {"trial": "c-r1", "levels": levels, "members": roster}


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
    told = members.told(asked, asked["members"][1], addresses, "k")["cluster"]
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


@pytest.mark.parametrize(
    ("placement", "network", "server"),
    [
        ("spread", "host", "10.0.0.2"),
        ("spread", "bridge", "10.0.0.2"),
        ("packed", "host", "10.0.0.1"),
        ("packed", "bridge", "c-r1-server0"),
        ("spread", "docker_overlay", "c-r1-server0"),
    ],
)
def test_members_that_do_not_train_are_told_of_each_other(
    placement: str, network: str, server: str
) -> None:
    asked = trial(placement, network)
    asked["levels"] |= {"distribution": "none", "workers": 1}
    second = "n1" if placement == "packed" else "n2"
    asked["members"] = [
        member("client", 0, "n1"),
        member("server", 0, second, control=29400, data=29401),
    ]
    addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    told = members.told(asked, asked["members"][0], addresses, "5e" * 16)
    assert set(told) == {"peers"}
    found = Peers.parse(told["peers"])
    assert (found.me.role, found.me.ports, found.key) == ("client", {}, b"\x5e" * 16)
    (peer,) = found.of("server")
    assert peer.address("control") == (server, 29400)
    assert peer.address("data") == (server, 29401)
    assert members.ports(asked, asked["members"][:1]) == []
    assert members.ports(asked, asked["members"][1:]) == [
        members.Port("control", "tcp", 29400),
        members.Port("data", "tcp", 29401),
    ]


@pytest.mark.parametrize(
    ("cpus", "quota", "counted"),
    [("0-3,8", None, 5), ("0-3", 2.5, 2), ("0", 4.0, 1), (None, 0.5, 1), (None, None, None)],
)
def test_cpus_are_counted(cpus: str | None, quota: float | None, counted: int | None) -> None:
    assert program.count(cpus, quota) == counted


def test_on_the_network_of_a_setting_each_member_has_a_place_of_its_own() -> None:
    places = {
        "n1": {"host": "10.214.1.1", "members": "10.214.1.128"},
        "n2": {"host": "10.214.2.1", "members": "10.214.2.128"},
    }
    native, in_apptainer, in_docker = (
        {**asked, "role": "measured", "levels": {**asked["levels"], "runtime": runtime}}
        for asked in [trial(network="vxlan")]
        for runtime in ("native", "apptainer", "docker")
    )
    for on_host in (native, in_apptainer):
        there = [members.place(on_host, member, places) for member in on_host["members"]]
        assert there == [places[member["host"]]["host"] for member in on_host["members"]]
    there = [members.place(in_docker, member, places) for member in in_docker["members"]]
    assert len(set(there)) == len(there)
    assert there[0] == places[in_docker["members"][0]["host"]]["members"]
    assert members.place(trial(network="host"), native["members"][0], {}) == ""


def ends(network: str, placement: str = "spread", **options: str) -> dict[str, Any]:
    """A trial of a client and a server."""
    asked = trial(placement, network)
    asked["levels"] |= {"distribution": "none", "workers": 1, **options}
    second = "n1" if placement == "packed" else "n2"
    asked["members"] = [member("client", 0, "n1"), member("server", 0, second, control=29400)]
    return {**asked, "role": "measured"}


def test_hosts_on_whose_own_network_an_end_stands_are_known_by_their_addresses() -> None:
    """By both: who sends through a tunnel has one there."""
    addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    places = {f"n{n}": {"host": f"10.218.{n}.1", "members": ""} for n in (1, 2)}
    found = {
        one: members.from_hosts(ends("calico", ends=one), addresses, places)
        for one in ("both", "client_only", "server_only")
    }
    assert found == {
        "both": [],
        "client_only": ["10.0.0.2", "10.218.2.1"],
        "server_only": ["10.0.0.1", "10.218.1.1"],
    }


@pytest.mark.parametrize(
    ("asked", "networks", "server"),
    [
        (ends("bridge", ends="client_only"), ["bridge", "host"], "10.0.0.2"),
        (ends("bridge", ends="server_only"), ["host", "bridge"], "10.0.0.2"),
        (ends("bridge", "packed", ends="client_only"), ["bridge", "host"], "10.0.0.1"),
        (ends("vxlan", ends="client_only"), ["vxlan", "host"], "10.214.2.1"),
        (ends("vxlan", ends="server_only"), ["host", "vxlan"], "10.214.2.129"),
        (ends("flannel_vxlan", ends="client_only"), ["flannel_vxlan", "host"], "10.214.2.1"),
        (ends("flannel_vxlan", ends="server_only"), ["host", "flannel_vxlan"], "c-r1-server0"),
        (ends("flannel_vxlan", through="service"), ["flannel_vxlan"] * 2, "service-c-r1-server0"),
    ],
)
def test_an_end_that_is_not_on_the_network_is_reached_at_its_hosts_address_there(
    asked: dict[str, Any], networks: list[str], server: str
) -> None:
    addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    places = {f"n{n}": {"host": f"10.214.{n}.1", "members": f"10.214.{n}.128"} for n in (1, 2)}
    cell = Cell.of(asked["levels"])
    assert [members.network(cell, member) for member in asked["members"]] == networks
    assert not members.own_network(cell)
    told = members.told(asked, asked["members"][0], addresses, "5e" * 16, places)
    (peer,) = Peers.parse(told["peers"]).of("server")
    assert peer.host == server
    assert members.service(asked, asked["members"][0]) == ""
    assert members.service(asked, asked["members"][1]) == server * server.startswith("service-")
