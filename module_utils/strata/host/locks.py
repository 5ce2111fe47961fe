"""Locks that only their own account can take, and that nobody waits for without an end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import Refused

LOOK_S = 0.1
OPEN_TO_LOOK = 0o755


def account(uid: int) -> str:
    """The name of an account, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def own_folder(path: Path) -> None:
    """Make a folder that everybody may look into and only this account may write to.

    Raises Refused where another account has taken its name, be it with a link.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(parents=True, mode=OPEN_TO_LOOK)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Refused(
            "the folder of the lease belongs to the account that runs the modules",
            given=f"{path} belongs to {account(found.st_uid)}",
            then="have it removed: nothing of Strata's is in it",
        )
    if stat.S_IMODE(found.st_mode) != OPEN_TO_LOOK:
        path.chmod(OPEN_TO_LOOK)


@contextlib.contextmanager
def only_one(path: Path, rule: str, patience_s: float) -> Iterator[None]:
    """Hold the lock of a file; the kernel lets go when we die.

    Raises Refused with `rule` and who has it when it is not free within `patience_s` seconds.
    """
    descriptor = _opened(path)
    try:
        deadline = time.monotonic() + patience_s
        while not (_taken(descriptor) and _is_at(descriptor, path)):
            if time.monotonic() > deadline:
                raise Refused(rule, given=f"{path}: {holder(path)}", then="wait for its end")
            time.sleep(LOOK_S)
            os.close(descriptor)
            descriptor = _opened(path)
        yield
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """The file of a lock. Whoever can open a file can lock it, so nobody else can open this one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether others that open the file now get this one: it may have been removed meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(path: Path) -> str:
    """Which process has the lock of a file, in words."""
    found = path.stat()
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:978095 0 EOF
    locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    for pid in (lock[4] for lock in locks if lock[1] == "FLOCK" and lock[5] == file):
        with contextlib.suppress(OSError):
            return f"process {pid}, {Path(f'/proc/{pid}/comm').read_text().strip()}"
    return "a process that cannot be seen from here"
