"""The account of a trial is nobody else's."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.trial import account

NARROW = 3  # numbers to choose from, so that each choice is tried


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where Strata may choose among 4997 to 5000, and where nobody is."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(account, "SPAN", NARROW)
    for name in ("MAPS", "SUBORDINATE"):
        monkeypatch.setattr(account, name, (str(tmp_path / name),) * 2)
    (tmp_path / "MAPS").write_text("         0     100000       5001\n")
    monkeypatch.setattr(account, "of_processes", lambda _: set[int]())
    monkeypatch.setattr(account, "_named", lambda _: False)
    return tmp_path


def test_trials_of_a_slot_have_different_ones_until_none_is_left(machine: Path) -> None:
    taken = set[int]()
    assert {account.own(taken) for _ in range(4)} == taken == {4997, 4998, 4999, 5000}
    with pytest.raises(Refused, match="from 4997 to 5000"):
        account.own(taken)


@pytest.mark.parametrize("whose", ["process", "account", "container"])
def test_what_is_anothers_is_not_chosen(
    machine: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    if whose == "process":
        monkeypatch.setattr(account, "of_processes", lambda _: {4997, 4998})
    elif whose == "account":
        monkeypatch.setattr(account, "_named", lambda number: number < 4999)
    else:
        (machine / "SUBORDINATE").write_text("odd line\nfred:4000:999\n")
    assert {account.own(set()) for _ in range(50)} == {4999, 5000}


def test_the_number_of_images_for_nonroot_is_never_chosen(machine: Path) -> None:
    (machine / "MAPS").write_text("0 0 65536\n")  # a machine that is a container itself
    assert {account.own(set()) for _ in range(50)} == {65533}


def test_running_processes_and_named_accounts_are_known(tmp_path: Path) -> None:
    assert os.geteuid() in account.of_processes(Path("/proc"))
    (tmp_path / "7").mkdir()
    status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t5\t5\t5\nGroups:\t6 7 \nVmHWM:\t8 kB\n"
    (tmp_path / "7/status").write_text(status)
    assert account.of_processes(tmp_path) == {1, 2, 3, 4, 5, 6, 7}
    assert account._named(pwd.getpwnam("nobody").pw_uid) and not account._named(account.HIGHEST)


def test_without_root_it_is_that_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert account.own(set()) == 1234


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it looks as a process of another's")
def test_a_process_of_another_account_keeps_its_number() -> None:
    number = account.own(set())
    ids = [f"--reuid={number}", f"--regid={number}", "--clear-groups"]
    with subprocess.Popen(["setpriv", *ids, "sleep", "60"]) as process:
        while str(number) not in Path(f"/proc/{process.pid}/status").read_text():
            assert process.poll() is None
        assert number in account.of_processes(Path("/proc"))
        process.kill()
