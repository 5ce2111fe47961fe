"""A host is held by one run: who may take it, and when it is free."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from strata import lease
from strata.errors import Refused


def holder(**changes: Any) -> dict[str, Any]:
    """This very process, which is alive."""
    start = lease.start_time(os.getpid())
    return {"host": socket.gethostname(), "pid": os.getpid(), "start": start, **changes}


ELSEWHERE = {"host": "another-controller.example", "pid": 7, "start": 99}


def stored(at: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((at / "lease.json").read_text())
    return found


def alter(at: Path, **changes: Any) -> None:
    (at / "lease.json").write_text(json.dumps({**stored(at), **changes}))


def test_take_take_again_and_give_back(tmp_path: Path) -> None:
    assert lease.current(tmp_path) is None
    assert lease.acquire("a", holder(), 60, at=tmp_path)
    first = stored(tmp_path)
    assert set(first) == {"run", "holder", "boot", "since", "expires"}
    assert first["expires"] == pytest.approx(time.time() + 60, abs=5)
    assert first["since"].endswith("+00:00")
    assert not lease.acquire("a", holder(), 600, at=tmp_path)
    again = stored(tmp_path)
    assert again["since"] == first["since"]
    assert again["expires"] > first["expires"] + 500
    assert lease.release("a", holder(), tmp_path)
    assert lease.current(tmp_path) is None
    assert not lease.release("a", holder(), tmp_path)


def test_another_run_is_refused_with_who_has_it(tmp_path: Path) -> None:
    lease.acquire("a", ELSEWHERE, 60, at=tmp_path)
    with pytest.raises(Refused) as refused:
        lease.acquire("b", holder(), 60, at=tmp_path)
    text = str(refused.value)
    assert text.startswith("this host is held by another run\n")
    assert "run a, controller another-controller.example process 7, since 20" in text
    assert "until 20" in text
    assert "\nnext: wait for its end" in text
    assert stored(tmp_path)["run"] == "a"


def test_another_controller_of_the_same_run_is_refused(tmp_path: Path) -> None:
    lease.acquire("a", ELSEWHERE, 60, at=tmp_path)
    with pytest.raises(Refused, match="held by another controller of this run"):
        lease.acquire("a", holder(), 60, at=tmp_path)
    assert lease.acquire("a", holder(), 60, force=True, at=tmp_path)
    assert stored(tmp_path)["holder"] == holder()


def test_a_live_process_of_this_machine_keeps_it(tmp_path: Path) -> None:
    lease.acquire("a", holder(), 60, at=tmp_path)
    with pytest.raises(Refused):
        lease.acquire("b", ELSEWHERE, 60, at=tmp_path)


@pytest.mark.parametrize("change", [{"expires": 0}, {"boot": "another"}])
def test_an_expired_lease_or_one_before_a_reboot_is_none(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    lease.acquire("a", ELSEWHERE, 60, at=tmp_path)
    alter(tmp_path, **change)
    assert lease.current(tmp_path) is None
    assert lease.acquire("b", holder(), 60, at=tmp_path)


def test_a_dead_controller_of_this_machine_holds_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    theirs = holder(pid=child.pid, start=lease.start_time(child.pid))
    lease.acquire("a", theirs, 60, at=tmp_path)
    with pytest.raises(Refused):
        lease.acquire("b", holder(), 60, at=tmp_path)
    child.communicate(b"\n")
    assert lease.current(tmp_path) is None
    assert lease.acquire("b", holder(), 60, at=tmp_path)


def test_a_zombie_controller_is_dead(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    lease.acquire("a", holder(pid=child.pid, start=lease.start_time(child.pid)), 60, at=tmp_path)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert lease.current(tmp_path) is None
    child.wait()


def test_a_later_process_with_the_same_number_is_not_the_holder(tmp_path: Path) -> None:
    lease.acquire("a", holder(start=1), 60, at=tmp_path)
    assert lease.current(tmp_path) is None


def test_only_the_holder_gives_it_back(tmp_path: Path) -> None:
    lease.acquire("a", ELSEWHERE, 60, at=tmp_path)
    assert not lease.release("a", holder(), tmp_path)
    assert not lease.release("b", ELSEWHERE, tmp_path)
    assert lease.current(tmp_path) is not None


def test_refresh_prolongs_ours_only(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not held by any run"):
        lease.refresh("a", holder(), 60, tmp_path)
    lease.acquire("a", ELSEWHERE, 60, at=tmp_path)
    lease.refresh("a", ELSEWHERE, 6000, tmp_path)
    assert stored(tmp_path)["expires"] > time.time() + 5000
    with pytest.raises(Refused, match="another run"):
        lease.refresh("b", holder(), 60, tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"run": "a"}', '"text"'])
def test_a_file_that_is_no_lease_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "lease.json").write_text(text)
    assert lease.current(tmp_path) is None
    assert lease.acquire("a", holder(), 60, at=tmp_path)


def test_asking_changes_nothing(tmp_path: Path) -> None:
    assert lease.would_change("a", holder(), at=tmp_path)
    assert list(tmp_path.iterdir()) == []
    lease.acquire("a", ELSEWHERE, 60, at=tmp_path)
    with pytest.raises(Refused):
        lease.would_change("a", holder(), at=tmp_path)
    assert lease.would_change("a", holder(), force=True, at=tmp_path)
    assert not lease.would_change("a", ELSEWHERE, at=tmp_path)


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    got: list[int] = []

    def take(number: int) -> None:
        try:
            lease.acquire(f"run{number}", {**ELSEWHERE, "pid": number}, 60, at=tmp_path)
            got.append(number)
        except Refused:
            pass

    threads = [threading.Thread(target=take, args=(number,)) for number in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    assert stored(tmp_path)["run"] == f"run{got[0]}"


def test_the_folder_is_emptied_by_a_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert lease.folder() == Path("/run/strata")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert lease.folder() == Path("/run/user/1000/strata")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert lease.folder() == Path("/tmp/strata-1000")


def test_a_folder_of_another_account_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(Refused, match="belongs to the account"):
        lease.acquire("a", holder(), 60, at=tmp_path)
