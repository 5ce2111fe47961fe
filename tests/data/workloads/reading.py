"""A workload of the tests: reads its dataset again and again, or bytes that it makes."""

import time
from dataclasses import dataclass, field
from typing import Literal

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context

COMMON = ("data", "steps")
ITEMS = "bytes"
METRICS = (
    Metric("read", "Read", "bytes/s", "higher", headline=True),
    Metric("files", "Files", "1"),
)
TOPOLOGY, PORTS = ONE, ()
FAMILY = "python"
WRITABLE = False
MEMORY = 2**26
LASTS_S = 0.1  # a step, at least


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `reading`."""

    data: Literal["made", "real"] = field(default="made", metadata={"help": "read", "unit": ""})
    steps: int = field(default=10, metadata={"help": "measured steps", "unit": "steps"})


def estimate(options: Options, _cores: float) -> float:
    """Seconds, pessimistic."""
    return 1.0 + options.steps


def run(options: Options, context: Context) -> None:
    """Measured steps; `read` in bytes/s, and how many files there are."""
    found = sorted(context.data_dir.rglob("*")) if context.data_dir else []
    files = [path for path in found if path.is_file()]
    context.scalar("files", len(files))
    context.mark("first_step_begin")
    context.mark("first_step_end")
    begin = context.mark("warmup_end")
    done = 0
    for number in range(1, options.steps + 1):
        wall, at = time.time(), time.monotonic()
        count = sum(len(path.read_bytes()) for path in files) if files else len(bytes(2**20))
        time.sleep(LASTS_S)
        took = time.monotonic() - at
        context.steps.add(("measured", number, 0, at, wall, count, None, 0.0, took, 0.0, took))
        done += count
    context.scalar("read", done / (context.mark("measured_end") - begin))
