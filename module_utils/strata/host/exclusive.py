"""One trial at a time on a host, and nothing else beside it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from . import counters, locks

LOCK_SECONDS = 20.0
IDLE_SAMPLE = 0.2
IDLE_SHARE = 0.25  # of all cores that others may use before the host counts as busy
IDLE_PATIENCE = 3.0


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """One trial at a time on a host, whatever leases and state folders say.

    What is found of other trials under this lock is stale. Raises Refused when another trial does
    not end.
    """
    locks.own_folder(folder)
    rule = "another trial is running on this host"
    with locks.only_one(folder / "trial.lock", rule, LOCK_SECONDS):
        yield


def settle(patience_s: float) -> list[dict[str, str]]:
    """Wait a little for the host to be idle; a flag when it is not."""
    cores, deadline = os.cpu_count() or 1, time.monotonic() + patience_s
    while True:
        before, begin = counters.totals().cpu_busy, time.monotonic()
        time.sleep(IDLE_SAMPLE)
        busy = (counters.totals().cpu_busy - before) / (time.monotonic() - begin)
        if busy <= IDLE_SHARE * cores:
            return []
        if time.monotonic() > deadline:
            detail = f"{busy:.1f} of {cores} cores were in use before it began"
            return [{"name": "not_idle", "detail": detail}]
