"""The operations that deep learning is made of, one kernel a trial: what DeepBench asks.

gemm, convolution in its three directions, and layers of vanilla, LSTM and GRU cells, in TensorFlow,
of any size; the experiments `ibm2018_gemm`, `ibm2018_convolution` and `ibm2018_recurrent` have
those of DeepBench (github.com/baidu-research/DeepBench, code/kernels).

    kernels.py     what a name says: sizes, arithmetic, bytes; standard library only
    functions.py   the kernels in TensorFlow

A call is launched and then runs. Beside each call the same one over single numbers is made, which
launches as many kernels and has nothing to compute: `launch_time` is its median. Many short kernels
(a GRU over a long sequence) and few long ones differ by it.

What bounds a kernel is the launches, the memory, or the cores (`bound` in the environment). The
roof of the last two (Williams, Waterman and Patterson, CACM 52, 2009) is the smaller one of the
FLOP/s of a large product on the same cores and of what the memory can deliver for a kernel that
moves each of its numbers once; both are measured right after. `of_roof` says how near it came;
it may exceed 1 where the numbers stay in a cache.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from workloads import _tensorflow
from workloads._declare import ONE, Metric
from workloads._options import refuse
from workloads._output import Context, FailureError
from workloads._tensorflow import ThreadOptions
from workloads.deep_ops.kernels import Direction, parse

COMMON = ("kernel", "direction", "dtype", "calls")
ITEMS = "FLOP"
METRICS = (
    Metric("flops", "Computing", "FLOP/s", "higher", headline=True),
    Metric("call_time", "Time of a call", "s", "lower", headline=True),
    Metric("launch_time", "Time to launch", "s", "lower"),
    Metric("run_time", "Time of a call without its launches", "s", "lower"),
    Metric("launch_share", "Share of launches", "1", "lower"),
    Metric("flop", "Work of a call", "FLOP"),
    Metric("peak_flops", "Product of large matrices", "FLOP/s", "higher"),
    Metric("memory_bandwidth", "Bytes moved by a sum of large arrays", "bytes/s", "higher"),
    Metric("roof", "What cores and memory allow", "FLOP/s"),
    Metric("of_roof", "Computing / what is allowed", "1", "higher"),
)
TOPOLOGY, PORTS = ONE, ()
BACKGROUND = False
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 2**30

STARTUP_S = 25.0  # and the probe
SLOWEST_FLOPS = 2e9  # a second on one core, of a kernel that reads its weights from the memory
SLOWEST_LAUNCH_S = 0.001  # of one step of a sequence
ITEM_BYTES = {"float32": 4, "bfloat16": 2}
LAUNCHES = 0.5  # a call with a larger share of launches is bound by them


@dataclass(frozen=True)
class Options(ThreadOptions):
    """Options of `deep_ops`."""

    kernel: str = field(
        default="gemm 1760x128x1760 nn",
        metadata={"help": "which, and its sizes, as docs/components.md has them", "unit": ""},
    )
    direction: Direction = field(
        default="forward",
        metadata={
            "help": "of a convolution also backward_data and backward_filter, the gradients by its "
            "images and by its filters; of cells also training, forward and both gradients",
            "unit": "",
        },
    )
    dtype: Literal["float32", "bfloat16"] = field(
        default="float32", metadata={"help": "of all numbers", "unit": ""}
    )
    device: Literal["cpu", "gpu"] = field(
        default="cpu", metadata={"help": "where it is computed", "unit": ""}
    )
    warmup_calls: int = field(
        default=5, metadata={"help": "before those that are measured", "unit": "1"}
    )
    calls: int = field(default=100, metadata={"help": "that are measured", "unit": "1"})
    duration: float = field(
        default=10.0,
        metadata={"help": "after which no further call begins; 0: no limit", "unit": "s"},
    )
    seed: int = field(default=1, metadata={"help": "of the numbers", "unit": "1"})

    def __post_init__(self) -> None:
        """Refuses what no kernel can do."""
        super().__post_init__()
        self.at_least(1, "warmup_calls", "calls")
        self.at_least(0, "duration", "seed")
        known = parse(self.kernel).directions
        if self.direction not in known:
            raise refuse(
                "direction",
                f"must be one of {', '.join(known)} for {self.kernel}",
                known[-1],
                self.direction,
            )


def estimate(options: Options, cores: float) -> float:
    """Seconds: rough, pessimistic."""
    kernel = parse(options.kernel)
    steps = getattr(kernel, "steps", 1)
    call = kernel.flop(options.direction) / (SLOWEST_FLOPS * max(cores, 1.0))
    call += 2 * SLOWEST_LAUNCH_S * steps
    measured = call * options.calls
    if options.duration:
        measured = min(measured, options.duration + call)
    return STARTUP_S + measured + call * options.warmup_calls


def run(options: Options, context: Context) -> None:
    """Calls the kernel again and again, and says how near it came to what bounds it."""
    _tensorflow.prepare(options.device)
    import tensorflow as tf  # noqa: PLC0415  heavy

    from workloads import _probe  # noqa: PLC0415
    from workloads.deep_ops.functions import prepared  # noqa: PLC0415

    _tensorflow.configure(options, context.cpus, options.seed, options.device)
    context.environment.update(_tensorflow.environment())
    context.mark("imported")
    kernel, how = parse(options.kernel), (options.dtype, options.device, options.seed)
    try:
        call = prepared(kernel, options.direction, *how)
        launch = prepared(kernel.smallest(), options.direction, *how)
    except tf.errors.ResourceExhaustedError as error:
        raise FailureError(f"kernel: {options.kernel} does not fit into the memory") from error
    context.mark("built")
    wait = tf.test.experimental.sync_devices if options.device == "gpu" else _nothing
    took, launches = _measure(options, context, call, launch, wait)
    flop = kernel.flop(options.direction)
    whole, launched = statistics.median(took), statistics.median(launches)
    context.scalar("flop", flop)
    context.scalar("flops", flop / whole)
    context.scalar("call_time", whole)
    context.scalar("launch_time", launched)
    context.scalar("run_time", max(0.0, whole - launched))
    context.scalar("launch_share", min(1.0, launched / whole))
    peak = _probe.matmul_flops(options.device, options.dtype)
    bandwidth = _probe.memory_bandwidth(options.device)
    moved = kernel.values(options.direction) * ITEM_BYTES[options.dtype]
    by_memory = flop / moved * bandwidth
    context.scalar("peak_flops", peak)
    context.scalar("memory_bandwidth", bandwidth)
    context.scalar("roof", min(peak, by_memory))
    context.scalar("of_roof", flop / whole / min(peak, by_memory))
    of_roof = "memory" if by_memory < peak else "cores"
    context.environment["bound"] = "launches" if launched > LAUNCHES * whole else of_roof


def _nothing() -> None:
    """A call on a CPU returns when its result is there."""


def _measure(
    options: Options, context: Context, call: Any, launch: Any, wait: Any
) -> tuple[list[float], list[float]]:
    """Seconds of each measured call, and of those with nothing to compute, one after the other."""
    took: list[float] = []
    launches: list[float] = []
    flop = parse(options.kernel).flop(options.direction)
    context.mark("first_step_begin")
    end = float("inf")
    for number in range(1, options.warmup_calls + options.calls + 1):
        measured = number > options.warmup_calls
        if number == options.warmup_calls + 1:
            end = context.mark("warmup_end") + (options.duration or float("inf"))
        if time.monotonic() > end:
            break
        begin = time.perf_counter()
        launch()
        wait()
        launched = time.perf_counter() - begin
        wall, mono, begin = time.time(), time.monotonic(), time.perf_counter()
        call()
        wait()
        lasted = time.perf_counter() - begin
        phase = "measured" if measured else "warmup"
        context.steps.add((phase, number, 0, mono, wall, flop, None, 0.0, lasted, 0.0, lasted))
        if number == 1:
            context.mark("first_step_end")
        if measured:
            took.append(lasted)
            launches.append(launched)
    context.mark("measured_end")
    return took, launches
