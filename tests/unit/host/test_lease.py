"""A host is held by one run: who may take it, and when it is free."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused
from strata.host import exclusive, lease, locks


def holder(**changes: Any) -> dict[str, Any]:
    """This very process, which is alive."""
    return {**lease.process(os.getpid()), **changes}


ELSEWHERE = {"host": "another-controller.example", "machine": "m", "pid": 7, "start": 99}


ANYBODY, SOMEBODY = 54321, 54322
FORGED = {
    "run": "r",
    "holder": {"host": "h", "pid": 1, "start": 1},
    "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    "since": "2026-01-01T00:00:00+00:00",
    "expires": 9e9,
}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to be two accounts")


@pytest.fixture(autouse=True)
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Leases in folders of the test's own, into which other accounts can look."""
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setattr(lease, "ROOT", Path(name) / "root")
        monkeypatch.setattr(lease, "SHARED", Path(name) / "shared")
        Path(name).chmod(0o755)
        lease.SHARED.mkdir()
        lease.SHARED.chmod(0o1777)
        yield lease.folder()


def as_account(uid: int, work: Callable[[], Any]) -> Any:
    """What `work` returns to another account, or what it is refused for."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            said = json.dumps(work(), default=str)
        except (Refused, OSError) as error:
            said = json.dumps(str(error))
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said)


def stored(at: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((at / "lease.json").read_text())
    return found


def alter(at: Path, **changes: Any) -> None:
    (at / "lease.json").write_text(json.dumps({**stored(at), **changes}))


def test_take_take_again_and_give_back(at: Path) -> None:
    assert lease.current() is None
    assert lease.acquire("a", holder(), 60)
    first = stored(at)
    assert set(first) == {"run", "holder", "boot", "since", "expires", "use"}
    assert first["expires"] == pytest.approx(time.time() + 60, abs=5)
    assert first["since"].endswith("+00:00")
    assert not lease.acquire("a", holder(), 600)
    again = stored(at)
    assert again["since"] == first["since"]
    assert again["expires"] > first["expires"] + 500
    assert lease.release("a", holder())
    assert lease.current() is None
    assert not lease.release("a", holder())


def test_another_run_is_refused_with_who_has_it(at: Path) -> None:
    lease.acquire("a", ELSEWHERE, 60)
    with pytest.raises(Refused) as refused:
        lease.acquire("b", holder(), 60)
    text = str(refused.value)
    assert text.startswith("this host is held by another run\n")
    assert (
        "run a, which measures, controller another-controller.example process 7, since 20" in text
    )
    assert "until 20" in text
    assert "\nnext: wait for its end" in text
    assert stored(at)["run"] == "a"


def test_another_controller_of_the_same_run_is_refused(at: Path) -> None:
    lease.acquire("a", ELSEWHERE, 60)
    with pytest.raises(Refused, match="held by another controller of this run"):
        lease.acquire("a", holder(), 60)
    assert lease.acquire("a", holder(), 60, force=True)
    assert stored(at)["holder"] == holder()


def test_a_live_process_of_this_machine_keeps_it(at: Path) -> None:
    lease.acquire("a", holder(), 60)
    with pytest.raises(Refused):
        lease.acquire("b", ELSEWHERE, 60)


@pytest.mark.parametrize("change", [{"expires": 0}, {"boot": "another"}])
def test_an_expired_lease_or_one_before_a_reboot_is_none(at: Path, change: dict[str, Any]) -> None:
    lease.acquire("a", ELSEWHERE, 60)
    alter(at, **change)
    assert lease.current() is None
    assert lease.acquire("b", holder(), 60)


def test_a_dead_controller_of_this_machine_holds_nothing(at: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    theirs = holder(pid=child.pid, start=lease.start_time(child.pid))
    lease.acquire("a", theirs, 60)
    with pytest.raises(Refused):
        lease.acquire("b", holder(), 60)
    child.communicate(b"\n")
    assert lease.current() is None
    assert lease.acquire("b", holder(), 60)


def test_a_zombie_controller_is_dead(at: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    lease.acquire("a", holder(pid=child.pid, start=lease.start_time(child.pid)), 60)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert lease.current() is None
    child.wait()


def test_a_later_process_with_the_same_number_is_not_the_holder(at: Path) -> None:
    lease.acquire("a", holder(start=1), 60)
    assert lease.current() is None


def test_only_the_holder_gives_it_back(at: Path) -> None:
    lease.acquire("a", ELSEWHERE, 60)
    assert not lease.release("a", holder())
    assert not lease.release("b", ELSEWHERE)
    assert lease.current() is not None


def test_refresh_prolongs_ours_only(at: Path) -> None:
    with pytest.raises(Refused, match="not held by any run"):
        lease.refresh("a", holder(), 60)
    lease.acquire("a", ELSEWHERE, 60)
    lease.refresh("a", ELSEWHERE, 6000)
    assert stored(at)["expires"] > time.time() + 5000
    with pytest.raises(Refused, match="another run"):
        lease.refresh("b", holder(), 60)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"run": "a"}', '"text"'])
def test_a_file_that_is_no_lease_is_none(at: Path, text: str) -> None:
    at.mkdir()
    (at / "lease.json").write_text(text)
    assert lease.current() is None
    assert lease.acquire("a", holder(), 60)


def test_asking_changes_nothing(at: Path) -> None:
    assert lease.would_change("a", holder())
    assert not at.exists()
    lease.acquire("a", ELSEWHERE, 60)
    with pytest.raises(Refused):
        lease.would_change("a", holder())
    assert lease.would_change("a", holder(), force=True)
    assert not lease.would_change("a", ELSEWHERE)


def test_of_many_at_once_one_gets_it(at: Path) -> None:
    got: list[int] = []

    def take(number: int) -> None:
        try:
            lease.acquire(f"run{number}", {**ELSEWHERE, "pid": number}, 60)
            got.append(number)
        except Refused:
            pass

    threads = [threading.Thread(target=take, args=(number,)) for number in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    assert stored(at)["run"] == f"run{got[0]}"


def test_each_account_has_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lease.folder() == lease.ROOT
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert lease.folder() == lease.SHARED / "strata-1000"


def test_a_controller_of_the_same_name_on_another_machine_is_not_judged_dead(at: Path) -> None:
    lease.acquire("a", holder(machine="another", start=1), 60)
    found = lease.current()
    assert found and found["run"] == "a"


@needs_root
class TestAccounts:
    """A lease holds for the machine, whichever account has it."""

    def test_what_root_holds_is_held_for_all(self, at: Path) -> None:
        mine = holder()
        lease.acquire("a", mine, 60)
        seen = as_account(ANYBODY, lease.current)
        assert (seen["run"], seen["account"]) == ("a", "root")
        refused = as_account(ANYBODY, lambda: lease.acquire("b", ELSEWHERE))
        assert refused.startswith("this host is held by another run\n")
        assert "run a of the account root" in refused
        assert as_account(ANYBODY, lambda: lease.acquire("a", mine)) is False, "one run, one holder"

    def test_what_another_account_holds_is_held_for_root(self, at: Path) -> None:
        assert as_account(ANYBODY, lambda: lease.acquire("a", ELSEWHERE)) is True
        with pytest.raises(lease.Held, match=f"run a of the account uid {ANYBODY}"):
            lease.acquire("b", holder())
        assert "of the account uid" in as_account(SOMEBODY, lambda: lease.acquire("b", ELSEWHERE))
        assert as_account(ANYBODY, lambda: lease.release("a", ELSEWHERE)) is True
        assert lease.acquire("b", holder())

    def test_of_two_accounts_at_once_both_look_again(
        self, at: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The other one takes it between root's look and root's lease.
        monkeypatch.setattr(lease, "would_change", lambda *_: True)
        as_account(ANYBODY, lambda: lease.acquire("a", ELSEWHERE))
        with pytest.raises(lease.Held):
            lease.acquire("b", holder())
        assert not (at / "lease.json").exists()

    def test_nobody_else_can_lock_what_root_waits_for(self, at: Path) -> None:
        lease.acquire("a", holder(), 60)
        with exclusive.only_one(at):
            pass
        for name in ("lease.lock", "trial.lock"):
            said = as_account(ANYBODY, lambda name=name: (at / name).open().close())
            assert "Permission denied" in said, name
        assert "Permission denied" in as_account(ANYBODY, (at / "x").touch)

    def test_a_lock_that_was_open_to_all_is_closed(self, at: Path) -> None:
        at.mkdir(mode=0o777)
        at.chmod(0o777)
        (at / "lease.lock").touch(0o666)
        lease.acquire("a", holder(), 60)
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (at, at / "lease.lock")]
        assert modes == [0o755, 0o600]

    @pytest.mark.parametrize("kind", ["link", "folder", "file"])
    def test_a_folder_that_another_account_made_is_refused(self, at: Path, kind: str) -> None:
        place = lease.SHARED / f"strata-{ANYBODY}"
        as_account(SOMEBODY, lambda: MAKE[kind](place))
        said = as_account(ANYBODY, lambda: lease.acquire("a", ELSEWHERE))
        assert f"{place} belongs to uid {SOMEBODY}" in said

    @pytest.mark.parametrize("kind", ["link", "fifo", "link to a folder", "of another"])
    def test_what_is_no_file_of_its_account_is_no_lease(self, at: Path, kind: str) -> None:
        as_account(SOMEBODY, lambda: lease.acquire("a", ELSEWHERE))
        theirs = lease.SHARED / f"strata-{SOMEBODY}"
        place = lease.SHARED / f"strata-{ANYBODY}"
        forge = {
            "link": lambda: (
                place.mkdir(),
                (place / "lease.json").symlink_to(theirs / "lease.json"),
            ),
            "fifo": lambda: (place.mkdir(), os.mkfifo(place / "lease.json")),
            "link to a folder": lambda: place.symlink_to(theirs),
            "of another": place.mkdir,
        }
        as_account(ANYBODY, forge[kind])
        if kind == "of another":
            shutil.copy(theirs / "lease.json", place / "lease.json")
        as_account(SOMEBODY, lambda: lease.release("a", ELSEWHERE))
        assert lease.current() is None

    @pytest.mark.parametrize(
        "text",
        [
            "[" * 4000,
            json.dumps({"run": "x" * 5000}),
            json.dumps({**FORGED, "run": 1}),
            json.dumps({**FORGED, "holder": {"host": "h", "pid": 1}}),
            json.dumps({**FORGED, "expires": float("nan")}),
            json.dumps({**FORGED, "expires": 10**400}),
        ],
    )
    def test_nonsense_of_another_account_is_no_lease(self, at: Path, text: str) -> None:
        forge(text)
        assert lease.current() is None

    def test_nothing_that_another_account_writes_reaches_a_terminal_as_it_is(
        self, at: Path
    ) -> None:
        shown = {"run": "\u001b]0;x\u0007\n", "since": "s\n", "expires": 1e300}
        holder_of_it = {"host": "h\u001b[2J", "pid": 1, "start": 1}
        forge(json.dumps({**FORGED, **shown, "holder": holder_of_it}))
        with pytest.raises(lease.Held) as held:
            lease.acquire("b", holder())
        given = str(held.value).splitlines()[1]
        assert given.isprintable() and f"of the account uid {ANYBODY}" in given


MAKE: dict[str, Callable[[Path], None]] = {
    "link": lambda place: place.symlink_to(lease.SHARED),
    "folder": Path.mkdir,
    "file": Path.touch,
}


def forge(text: str) -> None:
    """Write something in the place of another account's lease, as that account."""
    place = lease.SHARED / f"strata-{ANYBODY}"
    as_account(ANYBODY, lambda: (place.mkdir(), (place / "lease.json").write_text(text)))


def test_waiting_for_a_lock_has_an_end_and_names_the_holder(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LOCK_SECONDS", 0.0)
    lease.acquire("a", holder(), 60)
    with (
        locks.only_one(at / "lease.lock", "taken", 0.0),
        pytest.raises(Refused, match="lease of this host is being changed") as refused,
    ):
        lease.acquire("a", holder(), 60)
    assert f"lease.lock: process {os.getpid()}, " in str(refused.value)
    assert not lease.acquire("a", holder(), 60), "it is free again"


def test_who_waited_for_a_lock_that_was_removed_waits_for_the_one_in_its_place(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a trial whose controller is dead, and whose folder teardown takes away meanwhile."""
    at.mkdir(exist_ok=True)
    path, waits, taken = at / "some.lock", threading.Event(), locks._taken
    # Whoever does not get it at once waits.
    monkeypatch.setattr(locks, "_taken", lambda file: taken(file) or waits.set())

    def wait() -> str:
        with pytest.raises(Refused, match="taken") as refused, locks.only_one(path, "taken", 1.0):
            pass
        return str(refused.value)

    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as second:
        with locks.only_one(path, "taken", 0.0):
            waiting = pool.submit(wait)
            waits.wait()
            path.unlink()
            second.enter_context(locks.only_one(path, "taken", 0.0))
        assert f"process {os.getpid()}" in waiting.result()


def test_the_holder_is_a_process_here_or_none_that_can_be_looked_at() -> None:
    assert lease.local_holder() is None
    lease.acquire("r", holder())
    assert lease.local_holder() == os.getpid()
    lease.acquire("r", ELSEWHERE, force=True)
    assert lease.local_holder() is None
