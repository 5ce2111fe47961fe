"""What takes long to make is whole or not there, whoever makes it and whoever is killed meanwhile.

    with making(path, "unpack the image") as aside:
        if not path.exists():  # somebody else may have made it while we waited
            aside.run(["tar", "-xf", archive, "-C", str(aside.folder)])
            aside.place()

There is one maker at a time: a lock beside the path, held by the maker and by the programs that it
runs, and let go by the kernel when the last of them has died. The programs die with the maker.
What is half made is in a folder beside the path, which no other account can enter. Whoever
has the lock removes what dead makers left of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import files
from ..errors import Refused
from . import processes
from .owned import remove

PATIENCE_S = 900.0  # as long as anything but a dataset takes to make
LOOK_S = 0.1
SAID_BYTES = 1500
# The kernel ends the program with its parent; for root with all that the program started.
BOUND = ("setpriv", "--pdeathsig", "KILL")
APART = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
# Settings of the user's Python are not to show in what is made.
PRIVATE = "PYTHON"
ASIDE = re.compile(r"\.(?P<name>.+?)(\.old)?\.part")


@dataclass(frozen=True)
class Aside:
    """Where the maker of `path` works: `folder`, empty at first, and gone at the end."""

    path: Path
    folder: Path
    lock: int

    def run(self, command: list[str], **environment: str) -> None:
        """Run a program that dies with us. Raises Refused with what it said if it fails."""
        run(command, self.path.name, [self.lock], TMPDIR=str(self.folder), **environment)

    def place(self, made: Path | None = None) -> None:
        """Rename what was made, by default all of the folder, to its path. What was there goes."""
        old = _old(self.path)
        if os.path.lexists(self.path):
            self.path.rename(old)
        (made or self.folder).rename(self.path)
        files.sync_folder(self.path.parent)
        remove(old)


def run(command: list[str], made: str, locks: Sequence[int] = (), **environment: str) -> None:
    """Run a program by which `made` is made, and that dies with us; it holds the locks, too.

    Raises Refused with what it said if it fails.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
    apart = (*APART, "--mount-proc") if os.geteuid() == 0 else ()
    done = subprocess.run(
        [*BOUND, *apart, *command],
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        pass_fds=locks,
    )
    if done.returncode != 0:
        raise Refused(
            f"{Path(command[0]).name} failed while {made} was made",
            given=" ".join(command[:6]) + " …",
            then=(done.stderr or done.stdout).strip()[-SAID_BYTES:],
        )


@contextlib.contextmanager
def making(path: Path, what: str, patience_s: float = PATIENCE_S) -> Iterator[Aside]:
    """Be the one that makes `path`; `what` says so to those who wait.

    Raises Refused when somebody else has not finished after `patience_s` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with only_maker(path, what, patience_s) as lock:
        aside = path.with_name(f".{path.name}.part")
        for left in (aside, _old(path)):
            processes.end_noted(left / processes.FILE)
            remove(left)
        aside.mkdir(mode=0o700)
        try:
            yield Aside(path, aside, lock)
        finally:
            remove(aside)


@contextlib.contextmanager
def only_maker(path: Path, what: str, patience_s: float = PATIENCE_S) -> Iterator[int]:
    """Hold the lock of `path`, a descriptor. Raises Refused as `making` does."""
    deadline = time.monotonic() + patience_s
    while (lock := _take(path)) is None:
        if time.monotonic() > deadline:
            raise Refused(
                f"{path} is made by one process at a time",
                given=_holder(path),
                then="wait for its end, or end that process, and run again",
            )
        time.sleep(LOOK_S)
    try:
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} has the lock, to {what}".encode())
        yield lock
    finally:
        _let_go(path, lock)


def clear(path: Path) -> bool:
    """Remove `path`, or what `abandoned` found, unless it is being made; whether it went."""
    match = ASIDE.fullmatch(path.name)
    made = path.with_name(match["name"]) if match else path
    lock = _take(made)
    if lock is None:
        return False
    try:
        old = _old(made)
        remove(old)
        if os.path.lexists(path):
            # Renamed first: what goes is no longer there for anybody, and may take a while.
            path.rename(old)
            remove(old)
        return True
    finally:
        _let_go(made, lock)


def abandoned(folder: Path) -> list[Path]:
    """What dead makers left half made in `folder`."""
    if not folder.is_dir():
        return []
    found = [(path, ASIDE.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    return [
        path
        for path, match in found
        if match and path.is_dir() and not _busy(folder / match["name"])
    ]


def _take(path: Path) -> int | None:
    """The lock of `path` if it is free. Others cannot open it, so they cannot hold it."""
    while True:
        lock = os.open(_lock_of(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one before us has removed it in the meantime: it is nobody's lock any more.
            if os.path.samestat(os.fstat(lock), _lock_of(path).stat()):
                return lock
        except BlockingIOError:
            os.close(lock)
            return None
        except FileNotFoundError:
            pass
        os.close(lock)


def _let_go(path: Path, lock: int) -> None:
    _lock_of(path).unlink(missing_ok=True)
    os.close(lock)


def _busy(path: Path) -> bool:
    try:
        with _lock_of(path).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _holder(path: Path) -> str:
    try:
        return _lock_of(path).read_text()
    except FileNotFoundError:
        return "another process"


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.old.part")
