"""Leases of a cloud's hosts, without Blazar: what is asked of it, and what follows its answers."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from strata.errors import Refused
from strata.providers.openstack import found, reserved

NAME = "strata-lab"
ASKED = reserved.Asked("lab", 2, 1.5, '["=", "$node_type", "gpu"]')


class Blazar:
    """Its API as far as it is asked; a lease goes through the states that are given."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.leases: list[dict[str, Any]] = []
        self.said: list[str] = []

    def get(self, path: str) -> Any:
        assert path == "/leases"
        for lease in self.leases:
            lease["status"] = self.states.pop(0) if self.states else lease["status"]
        # Every project's service lists all of them.
        return answer({"leases": [{**one} for one in (*self.leases, {"id": "l0", "name": "else"})]})

    def post(self, path: str, json: dict[str, Any]) -> Any:
        assert path == "/leases"
        self.said.append("made")
        (reservation,) = json["reservations"]
        rest = {"id": f"l{len(self.said)}", "status": "PENDING"}
        self.leases.append({**json, **rest, "reservations": [{**reservation, "id": "r1"}]})
        return answer(self.leases[-1])

    def delete(self, path: str) -> Any:
        self.said.append("ended")
        self.leases = [one for one in self.leases if path != f"/leases/{one['id']}"]
        return answer(None)


def answer(body: Any) -> Any:
    return SimpleNamespace(status_code=200, json=lambda: body)


def cloud(blazar: Blazar) -> Any:
    return SimpleNamespace(has_service=lambda _: True, reservation=blazar)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserved, "LOOK_S", 0)


def test_a_lease_is_made_waited_for_found_again_and_ended() -> None:
    blazar = Blazar("PENDING", "STARTING", "ACTIVE")
    assert reserved.have(cloud(blazar), ASKED, 60) == ("r1", True)
    assert reserved.have(cloud(blazar), ASKED, 60) == ("r1", False)
    assert [one["id"] for one in found.leases(cloud(blazar)) if one["name"] == NAME] == ["l1"]
    assert reserved.end(cloud(blazar), "lab") and not reserved.end(cloud(blazar), "lab")
    assert blazar.said == ["made", "ended"]


def test_what_is_asked_is_said_in_blazars_words() -> None:
    told = ASKED.document(datetime(2026, 1, 1, 23, 0, tzinfo=UTC))
    assert (told["name"], told["start_date"], told["end_date"]) == (NAME, "now", "2026-01-02 00:30")
    (reservation,) = told["reservations"]
    assert (reservation["resource_type"], reservation["min"]) == ("physical:host", 2)
    assert reservation["resource_properties"] == ASKED.properties


def test_one_that_is_over_is_made_anew() -> None:
    blazar = Blazar("ACTIVE")
    reserved.have(cloud(blazar), ASKED, 60)
    blazar.states = ["TERMINATED", "ACTIVE"]
    assert reserved.have(cloud(blazar), ASKED, 60) == ("r1", True)
    assert blazar.said == ["made", "ended", "made"]


@pytest.mark.parametrize(
    ("states", "patience", "how"),
    [(["ERROR"], 60, "ERROR"), ([], 0, "not there after 0 s")],
)
def test_one_that_is_not_given_is_told(states: list[str], patience: float, how: str) -> None:
    with pytest.raises(Refused, match=f"2 hosts for 1.5 h: {how}"):
        reserved.have(cloud(Blazar(*states)), ASKED, patience)


def test_one_of_other_hosts_is_refused() -> None:
    blazar = Blazar("ACTIVE")
    reserved.have(cloud(blazar), ASKED, 60)
    more = reserved.Asked("lab", 3, 1.5, ASKED.properties)
    with pytest.raises(Refused, match=r"asked 3 with .*; it has 2 with"):
        reserved.have(cloud(blazar), more, 60)


@pytest.mark.parametrize("said", [{}, {"hours": 0}, {"hours": "long"}, {"hours": 1, "hosts": 2}])
def test_a_lease_that_says_no_time_is_refused(said: dict[str, Any]) -> None:
    assert reserved.asked("lab", 2, {"hours": "6"}) == reserved.Asked("lab", 2, 6.0)
    with pytest.raises(Refused, match="a lease is for some hours"):
        reserved.asked("lab", 2, said)


def test_a_cloud_that_leases_nothing_is_refused() -> None:
    none = SimpleNamespace(has_service=lambda _: False)
    assert found.leases(none) == []
    with pytest.raises(Refused, match="has no service 'reservation'"):
        reserved.check(none)
