"""What is made is whole or not there, by one maker at a time, and what a killed one left goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.host import making, processes

from tests.conftest import REPO

Start = Callable[..., subprocess.Popen[str]]
# A maker that writes, says so, and then runs a program which goes on for ever.
MAKER = """
    from strata.host.making import making
    from strata.trial import termination
    with making(Path(sys.argv[1]), "make a thing") as aside:
        (aside.folder / "half").write_text("made")
        print("begun", flush=True)
        termination.ends_with({}) if "ends_with" in sys.argv else None
        aside.run(["sh", "-c", f"sleep 600 & echo $! > {aside.folder}/child; wait"])
"""


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "PYTHONPATH": str(REPO / "module_utils")}

    def run(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
        code = f"import sys\nfrom pathlib import Path\n{textwrap.dedent(code)}"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        started.append(process)
        assert process.stdout and process.stdout.readline() == "begun\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def soon(holds: Callable[[], bool]) -> bool:
    """Whether it holds before anybody would lose patience."""
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def users(folder: Path) -> list[int]:
    """Processes whose command line names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_it_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "thing"
    with making.making(path, "make it") as aside:
        assert aside.folder.stat().st_mode & 0o777 == 0o700
        (aside.folder / "file").write_text("1")
        assert not path.exists()
        aside.place()
    assert (path / "file").read_text() == "1"
    with pytest.raises(ZeroDivisionError), making.making(path, "make it") as aside:
        (aside.folder / "file").write_text("2")
        _ = 1 / 0
    assert (path / "file").read_text() == "1"
    with making.making(path, "make it") as aside:
        (aside.folder / "part").mkdir()
        aside.place(aside.folder / "part")
    assert list(path.iterdir()) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["thing"]


def test_two_at_once_are_refused_in_words(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "thing"
    maker = start(MAKER, path)
    with (
        pytest.raises(Refused, match="is made by one process at a time") as refused,
        making.making(path, "make it", patience_s=0.2),
    ):
        pytest.fail("it was made twice at once")
    assert f"process {maker.pid} has the lock, to make a thing" in str(refused.value)
    assert making.abandoned(tmp_path) == []
    assert not making.clear(path)
    assert (tmp_path / ".thing.part" / "half").exists()


@pytest.mark.parametrize("how", ["killed", "its reader went away"])
def test_what_it_runs_ends_with_the_maker(tmp_path: Path, start: Start, how: str) -> None:
    path = tmp_path / "thing"
    maker = start(MAKER, path, "ends_with")
    assert soon(lambda: len(users(tmp_path / ".thing.part")) > 0)
    if how == "killed":
        maker.send_signal(signal.SIGKILL)
    else:
        assert maker.stdout
        maker.stdout.close()
        maker.wait(timeout=30)
    # The lock is free when the last of them has died.
    with making.making(path, "make it", patience_s=30) as aside:
        assert users(tmp_path / ".thing.part") == []
        assert list(aside.folder.iterdir()) == []
        aside.place()
    assert [entry.name for entry in tmp_path.iterdir()] == ["thing"]


def test_it_ends_with_a_controller_of_this_machine(tmp_path: Path, start: Start) -> None:
    """A killed controller leaves its worker behind, and that keeps our pipe open."""
    controller = subprocess.Popen(["sleep", "600"])
    code = """
        import socket
        from strata.host import lease
        from strata.trial import termination
        pid = int(sys.argv[1])
        holder = {"host": socket.gethostname(), "pid": pid, "start": lease.start_time(pid)}
        termination.ends_with(holder)
        print("begun", flush=True)
        import time
        time.sleep(600)
    """
    process = start(code, str(controller.pid))
    assert process.poll() is None
    controller.kill()
    controller.wait()
    assert process.wait(timeout=30) != 0


def test_what_a_dead_maker_left_is_found_and_removed(tmp_path: Path) -> None:
    for name in (".a.part", ".b.old.part"):
        (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    (tmp_path / ".of-files-own.7.part").touch()
    left = making.abandoned(tmp_path)
    assert [path.name for path in left] == [".a.part", ".b.old.part"]
    assert all(making.clear(path) for path in left)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".of-files-own.7.part", "a"]
    assert making.clear(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_program_that_fails_is_refused_with_what_it_said(tmp_path: Path) -> None:
    with (
        pytest.raises(Refused, match=r"(?s)sh failed while thing was made.*no luck"),
        making.making(tmp_path / "thing", "make it") as aside,
    ):
        aside.run(["sh", "-c", "echo no luck >&2; exit 3"])
    assert list(tmp_path.iterdir()) == []


def test_a_link_goes_and_what_it_points_to_stays(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "thesis")
    assert making.clear(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


def test_the_name_of_what_a_maker_runs_says_whether_it_lives() -> None:
    own = processes.own_name()
    assert processes.owner_lives(own)
    assert not processes.owner_lives(f"making.{os.getpid()}.1")
    assert not processes.owner_lives("s001-a-worker0")
