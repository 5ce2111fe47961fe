"""A workload of the tests: sorts random numbers, and tells how many network interfaces it sees."""

import random
import socket
import time
from dataclasses import dataclass, field

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context

COMMON = ("numbers", "steps")
ITEMS = "numbers"
METRICS = (
    Metric("sorted", "Sorted", "numbers/s", "higher", headline=True),
    Metric("interfaces", "Network interfaces", "1"),
)
TOPOLOGY, PORTS = ONE, ()
FAMILY = "python"
WRITABLE = False
MEMORY = 2**26
SECONDS_PER_NUMBER = 2e-6  # pessimistic


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `toy_sort`."""

    numbers: int = field(default=20_000, metadata={"help": "numbers in a step", "unit": "numbers"})
    steps: int = field(default=20, metadata={"help": "measured steps", "unit": "steps"})

    def __post_init__(self) -> None:
        """Refuses numbers below one."""
        self.at_least(1, "numbers", "steps")


def estimate(options: Options, cores: float) -> float:
    """Seconds, pessimistic."""
    return 0.5 + options.steps * options.numbers * SECONDS_PER_NUMBER / min(cores, 1.0)


def run(options: Options, context: Context) -> None:
    """Measured steps; `sorted` in numbers/s, and how many network interfaces are there."""
    order = random.Random(1)
    context.scalar("interfaces", len(socket.if_nameindex()))
    context.mark("first_step_begin")
    _step(options, context, order, "warmup", 1)
    context.mark("first_step_end")
    begin = context.mark("warmup_end")
    for number in range(2, options.steps + 2):
        _step(options, context, order, "measured", number)
    elapsed = context.mark("measured_end") - begin
    context.scalar("sorted", options.steps * options.numbers / elapsed)


def _step(
    options: Options, context: Context, order: random.Random, phase: str, number: int
) -> None:
    wall, begin = time.time(), time.monotonic()
    sorted(order.random() for _ in range(options.numbers))
    took = time.monotonic() - begin
    context.steps.add((phase, number, 0, begin, wall, options.numbers, None, 0.0, took, 0.0, took))
