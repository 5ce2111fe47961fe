"""The ledger: what may be there is known at every instant, and another instance is seen."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused
from strata.host import lease

from controller import ledger
from controller.ledger import Ledger

MAKING = {name: {"provider": "rehearsal", "what": {"lab": "x"}} for name in ("a", "b")}


def made(instance: str) -> dict[str, Any]:
    return {"instance": instance, "connection": {"ansible_host": "10.0.0.1"}}


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "cache", "lab-1")


def me() -> dict[str, Any]:
    return lease.process(os.getpid())


def test_what_may_be_there_is_noted_before_and_what_is_after(book: Ledger) -> None:
    assert book.hosts() == {}
    book.making(MAKING, me())
    assert book.hosts() == MAKING
    assert book.made({"a": made("one")}) == []
    assert book.hosts()["a"] == {**MAKING["a"], **made("one")}
    assert book.hosts()["b"] == MAKING["b"]


def test_another_instance_is_told_whoever_was_killed_meanwhile(book: Ledger) -> None:
    book.making(MAKING, me())
    book.made({"a": made("one"), "b": made("two")})
    book.making(MAKING, me())
    assert book.made({"a": made("one")}) == []
    (line,) = book.made({"b": made("three")})
    assert line == "b is another instance: three, was two"
    assert book.hosts()["b"]["instance"] == "three"


def test_a_line_that_a_kill_cut_was_of_nothing_that_had_begun(book: Ledger) -> None:
    book.making(MAKING, me())
    with book.path.open("a") as file:
        file.write('{"event": "making", "host": "c", "prov')
    assert book.hosts() == MAKING
    book.made({"a": made("one")})
    assert book.hosts()["a"]["instance"] == "one"


def test_one_process_at_a_time_makes_hosts(book: Ledger) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        book.making({"a": MAKING["a"]}, lease.process(other.pid))
        with pytest.raises(Refused, match="made by one run at a time") as refused:
            book.making(MAKING, me())
        assert f"a is being made by process {other.pid}" in str(refused.value)
        book.made({"a": made("one")})
        book.making(MAKING, me())
        book.making(MAKING, me())
        other.kill()


def test_a_process_that_died_while_it_made_them_is_no_hindrance(book: Ledger) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        book.making(MAKING, lease.process(other.pid))
        other.kill()
    book.making(MAKING, me())


def test_it_goes_with_the_last_of_its_hosts_and_leaves_nothing(book: Ledger) -> None:
    other = Ledger(book.cache, "lab-2")
    for one in (book, other):
        one.making(MAKING, me())
    book.gone()
    assert (book.hosts(), other.hosts()) == ({}, MAKING)
    other.gone()
    assert not book.cache.exists()


def test_a_file_that_is_no_ledger_is_refused(book: Ledger) -> None:
    book.path.parent.mkdir(parents=True)
    book.path.write_text("[]\n")
    with pytest.raises(Refused, match="a ledger has a line for each host") as refused:
        book.hosts()
    assert str(book.path) in str(refused.value)


def test_a_testbed_is_its_inventories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other/one"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "one/hosts.yml").touch()
    monkeypatch.chdir(tmp_path)
    name = ledger.testbed(["one"])
    assert name.startswith("one-")
    assert name == ledger.testbed(["one/hosts.yml"]) == ledger.testbed([str(tmp_path / "one")])
    others = (["other/one"], ["one", "other/one"], None)
    assert len({name, *map(ledger.testbed, others)}) == 4
