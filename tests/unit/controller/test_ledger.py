"""The ledger: what may be there is known at every instant, and another instance is seen."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused
from strata.host import lease

from controller import ledger, lives
from controller.ledger import Ledger
from schema import lives as schema
from schema.lives import Life

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


def test_the_life_of_an_instance_is_told_in_its_first_moments(book: Ledger) -> None:
    book.making(MAKING, me())
    told = {"asked": "2026-01-01T00:00:00Z", "active": "2026-01-01T00:00:04.500000000Z"}
    book.made({"a": made("one") | told, "b": made("two")})
    lines = book.reached({"a": 3.0, "b": 1.0})
    assert "a (rehearsal): active after 4.5 s, reached after" in lines[0] and len(lines) == 1
    before = book.lives()
    # The same command again: nothing of them is new.
    book.making(MAKING, me())
    book.made({"a": made("one") | {"active": "2026-01-02T00:00:00Z"}, "b": made("two")})
    assert book.reached({"a": 0.0, "b": 0.0}) == []
    assert book.lives() == before
    first, second = before
    assert (first.asked, first.active) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:04.500Z")
    assert (second.asked, second.active) == ("", "")
    assert Life(host="", provider="", instance="", leaving=second.reached,
                gone=first.reached).seconds("gone") == 2.0  # fmt: skip


def test_runs_are_told_when_their_hosts_are_gone(book: Ledger, tmp_path: Path) -> None:
    book.making(MAKING, me())
    book.made({"a": made("one"), "b": made("two")})
    book.reached({"a": 0.0, "b": 0.0})
    runs = [tmp_path / "results" / name for name in ("on-both", "on-other", "on-none")]
    for run, instances in zip(runs, (["one", "two"], ["old"], []), strict=True):
        run.mkdir(parents=True)
        old = Life(host="a", provider="rehearsal", instance="old")
        lives.keep(run, [vars(life) for life in (*book.lives(), old)], instances)
    assert not (runs[2] / schema.FILE).exists(), "its hosts existed"
    other = (runs[1] / schema.FILE).read_text()

    # Taken away in vain, used again, and taken away.
    book.leaving()
    book.made({"a": made("one")})
    assert [bool(life.leaving) for life in book.lives()] == [False, True]
    book.leaving()
    lines = book.gone(tmp_path / "results")
    assert [line.partition(" after")[0] for line in lines] == [
        *("a (rehearsal): gone", "b (rehearsal): gone")
    ]
    ended = schema.read_lives(runs[0])
    assert [life.instance for life in ended] == ["one", "two"]
    assert all(life.reached <= life.leaving <= life.gone for life in ended)
    assert (runs[1] / schema.FILE).read_text() == other
    assert book.hosts() == {}


def test_it_goes_with_the_last_of_its_hosts_and_leaves_nothing(
    book: Ledger, tmp_path: Path
) -> None:
    other = Ledger(book.cache, "lab-2")
    for one in (book, other):
        one.making(MAKING, me())
    book.gone(tmp_path / "results")
    assert (book.hosts(), other.hosts()) == ({}, MAKING)
    other.gone(tmp_path / "results")
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
