"""Before a run measures: a host comes to rest from what has been done to it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from . import counters, lease, processes

QUIET_S = 3.0  # for so long nothing else may use the CPUs
TICK_S = 0.5


@dataclass(frozen=True)
class Rest:
    """Whether the host came to rest, how long that took, and what others used in the end."""

    rested: bool
    waited_s: float
    others: float  # share of the CPU time of the last look


def come_to_rest(share: float, patience_s: float) -> Rest:
    """Wait until all but Strata use at most `share` of the CPU time for `QUIET_S` seconds.

    What a runtime's engine does counts: it may still be at work on what deploy has given it. After
    `patience_s` seconds the wait ends as it is.
    """
    own, cores = processes.up_to(lease.local_holder()), os.cpu_count() or 1
    begin, quiet = time.monotonic(), 0.0
    at, used = begin, _used(own)
    while True:
        time.sleep(TICK_S)
        now, after = time.monotonic(), _used(own)
        others = max(0.0, after - used) / (cores * (now - at))
        quiet = quiet + now - at if others <= share else 0.0
        at, used = now, after
        if quiet >= QUIET_S or now - begin >= patience_s:
            return Rest(quiet >= QUIET_S, now - begin, others)


def _used(own: list[int]) -> float:
    """CPU seconds that processes have used, without our own and without interrupts."""
    host = counters.totals()
    return host.cpu_busy - host.interrupts - processes.cpu_seconds(own)
