"""How fast a device moves numbers, and computes the four kernels of HKBU 2017.

One test a trial, in TensorFlow, on the CPU or on a GPU:

    host_to_device, device_to_host   over the bus; of a GPU only
    device_to_device                 from one array of the device to another; on a CPU its memory
    convolution                      17x17 over one image, row by row and column by column
    matmul                           a product of matrices
    histogram                        of bytes, in 64 or 256 bins
    transpose                        of a matrix

The sizes are HKBU's, which fill 4 GB of a GPU. Which CPUs and which memory are near the GPU say the
factors `cpus` and `numa`. What bounds each is told by `of_bound`: a product against the FLOP/s of
one of large squares, all others against the bytes/s of a sum of large arrays, for what they move at
least; a transfer of a GPU has no bound that can be known from here.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from workloads import _tensorflow
from workloads._declare import ONE, Metric
from workloads._options import refuse
from workloads._output import Context
from workloads._tensorflow import ThreadOptions

COMMON = ("test", "device", "scale")
ITEMS = "bytes"
METRICS = (
    Metric("bandwidth", "Bytes moved at least", "bytes/s", "higher", headline=True),
    Metric("call_time", "Time of a call", "s", "lower", headline=True),
    Metric("flops", "Computing", "FLOP/s", "higher"),
    Metric("pixels", "Pixels convolved", "pixels/s", "higher"),
    Metric("values", "Values counted", "values/s", "higher"),
    Metric("bound", "Bytes or FLOP that the device allows", "1/s"),
    Metric("of_bound", "Share of what it allows", "1", "higher"),
)
TOPOLOGY, PORTS = ONE, ()
BACKGROUND = False
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 4 * 2**30

Test = Literal[
    "host_to_device", "device_to_host", "device_to_device", "convolution", "matmul", "histogram",
    "transpose",
]  # fmt: skip
TRANSFERS = ("host_to_device", "device_to_host")
FLOAT = 4  # bytes
ARRAY = 2**25  # values of a transfer and a copy: 128 MiB
IMAGE = 18432  # pixels in each direction
RADIUS = 8  # of the filter, as in NVIDIA's sample
ROWS, INNER, COLUMNS = 23040, 17280, 11520
COUNTED = 67_108_864
MATRIX = 8192
STARTUP_S = 30.0
SLOWEST_FLOPS, SLOWEST_BYTES = 5e9, 5e8  # a second


@dataclass(frozen=True)
class Options(ThreadOptions):
    """Options of `device_bandwidth`."""

    test: Test = field(default="device_to_device", metadata={"help": "what is asked", "unit": ""})
    device: Literal["cpu", "gpu"] = field(
        default="cpu", metadata={"help": "where it is computed", "unit": ""}
    )
    scale: float = field(
        default=1.0, metadata={"help": "of each side or length, against HKBU's", "unit": "1"}
    )
    bins: Literal["64", "256"] = field(
        default="256", metadata={"help": "of the histogram", "unit": "1"}
    )
    warmup_calls: int = field(
        default=2, metadata={"help": "before those that are measured", "unit": "1"}
    )
    calls: int = field(default=10, metadata={"help": "that are measured", "unit": "1"})
    seed: int = field(default=1, metadata={"help": "of the numbers", "unit": "1"})

    def __post_init__(self) -> None:
        """Refuses what no device can do."""
        super().__post_init__()
        self.at_least(1, "warmup_calls", "calls")
        self.at_least(0, "seed")
        if not 0.001 <= self.scale <= 1:  # noqa: PLR2004  HKBU's is the largest
            raise refuse("scale", "must be from 0.001 to 1", 1.0, self.scale)
        if self.test in TRANSFERS and self.device == "cpu":
            raise refuse("device", f"must be gpu for {self.test}", "gpu", self.device)

    def side(self, length: int) -> int:
        """A length in this scale."""
        return max(4, round(length * self.scale))


def work(options: Options) -> tuple[float, float]:
    """FLOP and bytes of a call: each number is read or written once."""
    side = options.side
    if options.test == "matmul":
        rows, inner, columns = side(ROWS), side(INNER), side(COLUMNS)
        moved = rows * inner + inner * columns + rows * columns
        return 2.0 * rows * inner * columns, float(FLOAT * moved)
    if options.test == "convolution":
        pixels = side(IMAGE) ** 2
        return 2.0 * 2 * (2 * RADIUS + 1) * pixels, 2.0 * 2 * FLOAT * pixels
    if options.test == "histogram":
        return 0.0, float(side(COUNTED))
    if options.test == "transpose":
        return 0.0, 2.0 * FLOAT * side(MATRIX) ** 2
    return 0.0, (1.0 if options.test in TRANSFERS else 2.0) * FLOAT * side(ARRAY)


def estimate(options: Options, cores: float) -> float:
    """Seconds: rough, pessimistic."""
    flop, moved = work(options)
    call = flop / (SLOWEST_FLOPS * max(cores, 1.0)) + moved / SLOWEST_BYTES
    return STARTUP_S + 2 * call * (options.calls + options.warmup_calls)


def run(options: Options, context: Context) -> None:
    """Calls again and again, and says how near it came to what bounds it."""
    _tensorflow.prepare(options.device)
    import tensorflow as tf  # noqa: PLC0415  heavy

    from workloads import _probe  # noqa: PLC0415

    _tensorflow.configure(options, context.cpus, options.seed, options.device)
    context.environment.update(_tensorflow.environment())
    context.mark("imported")
    call = prepared(options)
    wait = tf.test.experimental.sync_devices if options.device == "gpu" else _nothing
    context.mark("built")
    took = _measure(options, context, call, wait)
    flop, moved = work(options)
    median = statistics.median(took)
    context.scalar("call_time", median)
    context.scalar("bandwidth", moved / median)
    if flop:
        context.scalar("flops", flop / median)
    if options.test == "convolution":
        context.scalar("pixels", options.side(IMAGE) ** 2 / median)
    if options.test == "histogram":
        context.scalar("values", options.side(COUNTED) / median)
    if options.test in TRANSFERS:
        return
    done, bound = (
        (flop, _probe.matmul_flops(options.device, "float32"))
        if options.test == "matmul"
        else (moved, _probe.memory_bandwidth(options.device))
    )
    context.scalar("bound", bound)
    context.scalar("of_bound", done / median / bound)


def prepared(options: Options) -> Callable[[], Any]:
    """One call of the test, on numbers that are there."""
    import tensorflow as tf  # noqa: PLC0415

    side, device = options.side, f"/{options.device}:0"
    numbers = tf.random.Generator.from_seed(options.seed)
    with tf.device("/cpu:0" if options.test == "host_to_device" else device):
        if options.test == "histogram":
            shape = [side(COUNTED)]
            operands = [tf.cast(numbers.uniform(shape, 0, 256, tf.int32), tf.uint8)]
        else:
            operands = [numbers.uniform(shape) for shape in _shapes(options)]
    if options.test in TRANSFERS:
        there = device if options.test == "host_to_device" else "/cpu:0"

        def move() -> Any:
            with tf.device(there):
                return tf.identity(operands[0])

        return move
    with tf.device(device):
        compute = tf.function(_computes(options), autograph=False)
        function = compute.get_concrete_function(*operands)
    return lambda: function(*operands)


def _shapes(options: Options) -> list[list[int]]:
    """Of the float32 operands."""
    side = options.side
    return {
        "matmul": [[side(ROWS), side(INNER)], [side(INNER), side(COLUMNS)]],
        "convolution": [[1, side(IMAGE), side(IMAGE), 1], [2 * RADIUS + 1]],
        "transpose": [[side(MATRIX), side(MATRIX)]],
    }.get(options.test, [[side(ARRAY)]])


def _computes(options: Options) -> Callable[..., Any]:
    """What is computed of the operands."""
    import tensorflow as tf  # noqa: PLC0415

    def separable(image: Any, row: Any) -> Any:
        size = 2 * RADIUS + 1
        once = tf.nn.conv2d(image, tf.reshape(row, [1, size, 1, 1]), 1, "SAME")
        return tf.nn.conv2d(once, tf.reshape(row, [size, 1, 1, 1]), 1, "SAME")

    def histogram(values: Any) -> Any:
        bins = int(options.bins)
        index = tf.cast(values, tf.int32) // (256 // bins)
        return tf.math.bincount(index, minlength=bins, maxlength=bins)

    known: dict[str, Callable[..., Any]] = {
        "matmul": tf.matmul,
        "convolution": separable,
        "histogram": histogram,
        "transpose": tf.transpose,
        "device_to_device": lambda array: tf.raw_ops.DeepCopy(x=array),
    }
    return known[options.test]


def _nothing() -> None:
    """A call on a CPU returns when its result is there."""


def _measure(
    options: Options, context: Context, call: Callable[[], Any], wait: Callable[[], Any]
) -> list[float]:
    """Seconds of each measured call."""
    took = []
    moved = round(work(options)[1])
    context.mark("first_step_begin")
    for number in range(1, options.warmup_calls + options.calls + 1):
        wall, begin = time.time(), time.monotonic()
        call()
        wait()
        lasted = time.monotonic() - begin
        phase = "measured" if number > options.warmup_calls else "warmup"
        context.steps.add((phase, number, 0, begin, wall, moved, None, 0.0, lasted, 0.0, lasted))
        took.append(lasted)
        if number == 1:
            context.mark("first_step_end")
        if number == options.warmup_calls:
            context.mark("warmup_end")
    context.mark("measured_end")
    return took[options.warmup_calls :]
