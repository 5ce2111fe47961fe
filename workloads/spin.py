"""A workload without TensorFlow: hashes with SHA-256, or fails as asked.

It measures what a platform costs when nothing but one core is used, and is the real
process with which the faults of a trial are tested.
"""

import hashlib
import time
from dataclasses import dataclass, field
from typing import Literal

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context, FailureError

COMMON = ("steps", "work")
ITEMS = "hashes"
METRICS = (Metric("rate", "Rate", "hashes/s", "higher", headline=True),)
TOPOLOGY, PORTS = ONE, ()
FAMILY = "python"
WRITABLE = False
MEMORY = 2**26
SECONDS_PER_HASH = 2e-6  # pessimistic: Python's call overhead included, 0.6 us on a current core
GROWTH_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `spin`."""

    steps: int = field(default=100, metadata={"help": "measured steps", "unit": "steps"})
    warmup_steps: int = field(
        default=10, metadata={"help": "steps before the measured ones", "unit": "steps"}
    )
    work: int = field(default=20_000, metadata={"help": "SHA-256 hashes in a step", "unit": "1"})
    fail: Literal["no", "exit", "hang", "memory"] = field(
        default="no",
        metadata={
            "help": "fault after the warm-up: exit with 1, sleep for ever, "
            "or take memory until it is refused",
            "unit": "",
        },
    )

    def __post_init__(self) -> None:
        """Refuses numbers below one."""
        self.at_least(1, "steps", "warmup_steps", "work")


def estimate(options: Options, cores: float) -> float:
    """Seconds, pessimistic; below one core the work takes as much longer."""
    hashes = (options.steps + options.warmup_steps) * options.work
    return 0.5 + hashes * SECONDS_PER_HASH / min(cores, 1.0)


def run(options: Options, context: Context) -> None:
    """Warm-up, fault if asked for, measured steps; `rate` in hashes/s."""
    context.mark("first_step_begin")
    _step(options, context, "warmup", 1)
    context.mark("first_step_end")
    for number in range(2, options.warmup_steps + 1):
        _step(options, context, "warmup", number)
    begin = context.mark("warmup_end")
    _fail(options.fail)
    done = 0
    while not context.termination.asked if context.termination.awaited else done < options.steps:
        done += 1
        _step(options, context, "measured", options.warmup_steps + done)
    elapsed = context.mark("measured_end") - begin
    context.scalar("rate", done * options.work / elapsed)


def _step(options: Options, context: Context, phase: str, number: int) -> None:
    wall, begin = time.time(), time.monotonic()
    digest = b""
    for _ in range(options.work):
        digest = hashlib.sha256(digest).digest()
    duration = time.monotonic() - begin
    context.steps.add(
        (phase, number, 0, begin, wall, options.work, None, 0.0, duration, 0.0, duration)
    )


def _fail(kind: str) -> None:
    if kind == "exit":
        raise FailureError("failed as asked (fail: exit)")
    while kind == "hang":
        time.sleep(60)
    taken: list[bytearray] = []
    while kind == "memory":
        taken.append(bytearray(b"\1" * GROWTH_BYTES))  # non-zero: the pages are really taken
