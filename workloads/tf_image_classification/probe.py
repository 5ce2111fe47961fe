"""What the input pipeline could do alone."""

import time
from collections.abc import Iterator
from typing import Any

CAPACITY_S = 1.0


def input_capacity(batches: Iterator[Any], batch_size: int, ready: int) -> float:
    """Images/s of the input pipeline with nothing else to do, after what was ready is used up."""
    for _ in range(ready + 1):
        next(batches)
    count, begin = 0, time.monotonic()
    while (elapsed := time.monotonic() - begin) < CAPACITY_S or count == 0:
        next(batches)
        count += 1
    return count * batch_size / elapsed
