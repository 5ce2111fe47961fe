"""One trial at a time on a host, and nothing else beside it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from . import usage
from .errors import Refused

LOOK_S = 0.1
LOCK_SECONDS = 20.0
IDLE_SAMPLE = 0.2
IDLE_SHARE = 0.25  # of all cores that others may use before the host counts as busy
IDLE_PATIENCE = 3.0


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """One trial at a time on a host, whatever leases and state folders say.

    What is found of other trials under this lock is stale. The kernel lets go when we die.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "trial.lock").open("w") as lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Refused(
                        "another trial is running on this host",
                        given=str(folder / "trial.lock"),
                        then="wait for its end",
                    ) from None
                time.sleep(LOOK_S)
        yield


def settle() -> list[dict[str, str]]:
    """Wait a little for the host to be idle; a flag when it is not."""
    cores, deadline = os.cpu_count() or 1, time.monotonic() + IDLE_PATIENCE
    while True:
        before, begin = usage.totals().cpu_busy, time.monotonic()
        time.sleep(IDLE_SAMPLE)
        busy = (usage.totals().cpu_busy - before) / (time.monotonic() - begin)
        if busy <= IDLE_SHARE * cores:
            return []
        if time.monotonic() > deadline:
            detail = f"{busy:.1f} of {cores} cores were in use before it began"
            return [{"name": "not_idle", "detail": detail}]
