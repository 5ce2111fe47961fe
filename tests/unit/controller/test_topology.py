"""Which members a trial has, on which hosts, and where they listen, as its workload declares it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from strata.errors import Refused

import workloads
from controller import plan
from controller.experiment import load
from workloads._declare import CLIENT_AND_SERVER, Metric, Port, Role, Topology

TOY: dict[str, Any] = {
    **{"Options": workloads.options("spin"), "COMMON": ("steps",), "ITEMS": None},
    "METRICS": (Metric("rate", "Rate", "1/s", "higher", headline=True),),
    "TOPOLOGY": CLIENT_AND_SERVER,
    "PORTS": (Port("control", "tcp", ("server",)), Port("data", "udp", ("client", "server"))),
    **{"FAMILY": "tools", "WRITABLE": True, "MEMORY": 2**20, "run": None},
    "estimate": lambda *_: 1.0,
}
HOSTS = [plan.Host(f"n{i}", "vm", ("native", "docker"), 2) for i in (1, 2, 3)]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(**TOY)
    monkeypatch.setitem(sys.modules, "workloads.toy", cast(Any, made))
    monkeypatch.setattr(workloads, "NAMES", (*workloads.NAMES, "toy"))
    return made


def make(tmp_path: Path, hosts: list[plan.Host] = HOSTS, **changes: Any) -> plan.Plan:
    asked = {
        **{"name": "t", "title": "T", "workload": "toy", "baseline": {}, "repeats": 2},
        **{"factors": {"runtime": ["native"]}, **changes},
    }
    (tmp_path / "t.yml").write_text(json.dumps(asked))
    return plan.make(load(tmp_path / "t.yml"), hosts)


def who(slot: plan.Slot) -> dict[str, tuple[str, list[tuple[str, str, int]]]]:
    """The host of each member, and where it listens."""
    return {
        f"{m['role']} {m['index']}": (
            m["host"],
            [(port["name"], port["protocol"], port["number"]) for port in m["ports"]],
        )
        for m in slot.trials[0].members
    }


def test_client_and_server_are_on_two_hosts_or_on_one(toy: SimpleNamespace, tmp_path: Path) -> None:
    made = make(tmp_path, factors={"placement": ["spread", "packed"]})
    for slot in made.slots:
        members = who(slot)
        levels = slot.trials[0].levels
        assert (levels["distribution"], levels["workers"], levels["servers"]) == ("none", 1, 1)
        assert list(members) == ["client 0", "server 0"]
        assert members["client 0"][1] == [("data", "udp", 29400)]
        assert members["server 0"][1] == [("control", "tcp", 29400), ("data", "udp", 29401)]
        hosts = [host for host, _ in members.values()]
        assert hosts == [slot.hosts[0], slot.hosts[-1]]
        assert len(set(hosts)) == len(slot.hosts) == (2 if levels["placement"] == "spread" else 1)
    spread = [slot.hosts for slot in made.slots if len(slot.hosts) == 2]
    assert len({hosts[0] for hosts in spread}) == 2, "each repetition begins with another host"


def test_what_a_workload_needs_to_write_to_travels_with_its_trials(
    toy: SimpleNamespace, tmp_path: Path
) -> None:
    assert all(trial.scratch for slot in make(tmp_path).slots for trial in slot.trials)
    toy.WRITABLE = False
    assert not any(trial.scratch for slot in make(tmp_path).slots for trial in slot.trials)


def test_with_one_host_there_is_no_client_and_server_on_two(
    toy: SimpleNamespace, tmp_path: Path
) -> None:
    made = make(tmp_path, HOSTS[:1], factors={"placement": ["spread", "packed"]})
    assert {slot.trials[0].levels["placement"] for slot in made.slots} == {"packed"}
    (left,) = made.left_out
    assert left["what"] == "native on vm with 2 members"
    assert left["why"] == "2 such hosts are needed, one for each member, and there are 1"


def test_several_clients_are_as_many_as_are_stated(toy: SimpleNamespace, tmp_path: Path) -> None:
    toy.TOPOLOGY = Topology("clients", (Role("client", 1, None), Role("server")), hosts=2)
    made = make(tmp_path, factors={"workers": [1, 3]}, repeats=1)
    for slot in made.slots:
        clients = [name for name in who(slot) if name.startswith("client")]
        assert len(clients) == slot.trials[0].levels["workers"]
        taken = [port[1:] for _, ports in who(slot).values() for port in ports]
        udp = [("udp", 29400 + n) for n in range(len(clients) + 1)]
        assert sorted(taken) == [("tcp", 29400), *udp], "no port is another's, too"
    assert replace(toy.TOPOLOGY, roles=(Role("client"),)).several is False


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"factors": {"distribution": ["ring"]}}, "toy cannot be distributed"),
        ({"options": {"placement": "together"}}, "a program for each member"),
        ({"factors": {"workers": [1, 2]}}, "at most 1 as client\n.*\n.*workers: 2"),
        ({"options": {"servers": 2}}, "at most 1 as server"),
        ({"options": {"network": "none", "runtime": "docker"}, "factors": {}}, "design is empty"),
        ({"workload": "spin", "backgrounds": {"b": {"workload": "toy", "options": {}}}}, "one mem"),
    ],
)
def test_what_the_topology_cannot_have_is_refused(
    toy: SimpleNamespace, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        make(tmp_path, **changes)


def test_workers_that_cannot_be_alone_are_together_unless_it_is_stated(tmp_path: Path) -> None:
    made = make(tmp_path, workload="all_reduce", factors={"workers": [2, 3]}, repeats=1)
    assert {slot.trials[0].levels["distribution"] for slot in made.slots} == {"ring"}
    with pytest.raises(Refused, match=r"cannot be distributed so\n.*distribution: ring"):
        make(tmp_path, workload="all_reduce", factors={"distribution": ["ps_sync"]})
    with pytest.raises(Refused, match="at least 2"):
        make(tmp_path, workload="all_reduce", factors={"workers": [1, 2]})


def test_a_declaration_that_is_not_whole_is_refused_in_a_sentence(
    toy: SimpleNamespace, tmp_path: Path
) -> None:
    del toy.METRICS
    with pytest.raises(Refused, match="toy: METRICS must be declared"):
        make(tmp_path)


def test_workers_and_servers_begin_with_the_first_host(tmp_path: Path) -> None:
    made = make(
        tmp_path,
        workload="mnist_dnn",
        options={"distribution": "ps_sync", "workers": 2, "servers": 3},
        repeats=1,
    )
    (slot,) = made.slots
    first, second = slot.hosts
    assert {name: host for name, (host, _) in who(slot).items()} == {
        **{"worker 0": first, "worker 1": second},
        **{"server 0": first, "server 1": second, "server 2": first},
    }
    numbers = [port for _, ports in who(slot).values() for port in ports]
    assert numbers == [("peers", "tcp", 29400 + n) for n in range(5)]
