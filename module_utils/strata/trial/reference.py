"""A reference burst: how fast this host is just now, outside of every platform.

A short piece of work that never changes, done natively by the module that runs a trial, right
before and right after it. It is no part of what is measured, and touches no runtime. The analysis
takes it for a covariate: what the host's speed explains, beside the plain figures.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time

SECONDS = 0.2
# Above 2,047 bytes hashing lets go of Python's lock, so that all CPUs work at the same time; this
# much stays in a core's own cache.
BLOCK = bytes(64 * 1024)


def burst() -> float:
    """Bytes/s that all CPUs of this process hash together (SHA-256), within `SECONDS`."""
    done = [0.0] * len(os.sched_getaffinity(0))
    begin = time.perf_counter()

    def work(at: int) -> None:
        count, now = 0, begin
        while now - begin < SECONDS:
            hashlib.sha256(BLOCK).digest()
            count, now = count + len(BLOCK), time.perf_counter()
        done[at] = count / (now - begin)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(done))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done)
