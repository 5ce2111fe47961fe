"""All-reduce: how long a vector takes to be summed over all workers, from 4 bytes to half a GiB.

What training that shares its gradients asks of a network, without the training. A trial has one
size, and at least two workers, on as many hosts or on one (`placement`). `transport` says whose
all-reduce it is:

    strata       the ring of Strata's own training (`workloads._ring`)
    tensorflow   TensorFlow's ring over gRPC, as MultiWorkerMirroredStrategy has it
    mpi          MPICH's, over TCP, by whichever algorithm it takes for the size
    nccl         NVIDIA's, through TensorFlow; refused where TensorFlow sees no GPU

What bounds it is the latency of a message for small vectors, and the link for large ones. `limit`
and `of_limit` say what the link's goodput, measured right before, allows, and how near it came;
`bus_bandwidth` is the bytes that each worker must send at least (Patarasuk and Yuan, JPDC 69, 2009)
over the time, as in NCCL's tests, so that figures of different numbers of workers can be compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from workloads import _cluster, _grpc, _tensorflow
from workloads._declare import WORKERS, Metric, Port
from workloads._options import BadInputError, refuse
from workloads._output import Context, FailureError
from workloads._tensorflow import ThreadOptions

COMMON = ("size", "transport")
ITEMS = "bytes"
METRICS = (
    Metric("latency", "Time of an all-reduce, median", "s", "lower", headline=True, combine="max"),
    Metric("bus_bandwidth", "Bus bandwidth", "bytes/s", "higher", headline=True, combine="median"),
    Metric("latency_min", "Shortest all-reduce", "s", "lower", combine="max"),
    Metric("latency_max", "Longest all-reduce", "s", "lower", combine="max"),
    Metric("throughput", "Bytes summed", "bytes/s", "higher", combine="throughput"),
)
TOPOLOGY = WORKERS
PORTS = (Port("peers", "tcp", ("worker",)),)
BACKGROUND = False
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 2**30

FLOAT = 4  # bytes
MOST_BYTES = 2**29
STARTUP_S = 20.0
SLOWEST_BYTES = 5e7  # a second


@dataclass(frozen=True)
class Options(ThreadOptions):
    """Options of `all_reduce`."""

    size: int = field(default=2**20, metadata={"help": "of the vector of float32", "unit": "bytes"})
    transport: Literal["strata", "tensorflow", "mpi", "nccl"] = field(
        default="strata", metadata={"help": "whose all-reduce", "unit": ""}
    )
    warmup_steps: int = field(
        default=5, metadata={"help": "all-reduces before those that are measured", "unit": "steps"}
    )
    steps: int = field(
        default=100, metadata={"help": "measured all-reduces at most", "unit": "steps"}
    )
    duration: float = field(
        default=10.0,
        metadata={"help": "that the measured ones are meant to take at most", "unit": "s"},
    )

    def __post_init__(self) -> None:
        """Refuses what is no vector."""
        super().__post_init__()
        self.at_least(FLOAT, "size")
        self.at_most(MOST_BYTES, "size")
        self.at_least(1, "warmup_steps", "steps")
        if self.size % FLOAT:
            raise refuse("size", "must be whole float32", 2**20, self.size)
        if not 0 < self.duration < float("inf"):
            raise refuse("duration", "must be positive and finite", 10.0, self.duration)


def estimate(options: Options, _cores: float) -> float:
    """Seconds: rough, pessimistic."""
    once = 0.01 + 2 * options.size / SLOWEST_BYTES
    measured = min(options.steps * once, options.duration + once)
    return STARTUP_S + options.warmup_steps * once + measured


def run(options: Options, context: Context) -> None:
    """Sums again and again, and says how fast."""
    if context.place is None:
        raise BadInputError(
            "cluster: all_reduce is between workers (example: factors: {workers: [2]}); given: null"
        )
    with _cluster.joined(context, options) as team:
        reduce = (_vector if options.transport in ("strata", "mpi") else _collective)(
            options, context, team
        )
        context.mark("built")
        took = _measure(options, context, team, reduce)
        team.finish(context)
    assert context.cluster is not None  # noqa: S101 - a team has finished
    context.cluster["bytes_per_step"] = options.size
    median = statistics.median(took)
    context.scalar("latency", median)
    context.scalar("latency_min", min(took))
    context.scalar("latency_max", max(took))
    context.scalar("bus_bandwidth", bus_bytes(options.size, team.workers) / median)
    context.scalar("throughput", len(took) * options.size / sum(took))


def bus_bytes(size: int, workers: int) -> float:
    """What each worker must send at least for a vector of that size (bytes)."""
    return 2 * (workers - 1) / workers * size


def _measure(
    options: Options, context: Context, team: _cluster.Alone, reduce: Callable[[], float]
) -> list[float]:
    """Seconds of each measured all-reduce; FailureError where a sum is wrong.

    They follow each other without a meeting: none ends anywhere before all have begun it.
    """
    took: list[float] = []
    number = 0
    expected = (team.workers + 1) / 2  # the mean of 1 to n, which each worker's index tells

    def once(phase: str) -> None:
        nonlocal number
        wall, begin = time.time(), time.monotonic()
        value = reduce()
        lasted = time.monotonic() - begin
        number += 1
        if value != expected:
            raise FailureError(f"the mean of 1 to {team.workers} is {expected}; found: {value}")
        row = (phase, number, team.index, begin, wall, options.size)
        context.steps.add((*row, None, 0.0, 0.0, lasted, lasted))
        took.append(lasted)

    context.mark("first_step_begin")
    once("warmup")
    context.mark("first_step_end")
    for _ in range(options.warmup_steps - 1):
        once("warmup")
    # As many in each worker as the chief finds time for.
    fits = max(1, int(options.duration / min(took)))
    count = min(options.steps, team.meet("count", fits)["worker 0"])
    took.clear()
    team.begin_window()
    context.mark("warmup_end")
    for _ in range(count):
        once("measured")
    context.mark("measured_end")
    team.end_window()
    return took


def _vector(options: Options, context: Context, team: _cluster.Alone) -> Callable[[], float]:
    """Strata's ring, or MPI: the mean, in place."""
    import numpy as np  # noqa: PLC0415

    from workloads import _mpi, _ring  # noqa: PLC0415

    assert isinstance(team, _cluster.Team)  # noqa: S101 - it has a place
    reducer: _mpi.World | _ring.Ring
    if options.transport == "mpi":
        reducer = world = _mpi.World(team)
        context.environment["mpi"] = world.about()
    else:
        reducer = _ring.Ring(team.index, team.workers, team.ring())
    vector = np.empty(options.size // FLOAT, np.float32)
    begin, end = vector[:1], vector[-1:]

    def reduce() -> float:
        begin[0] = end[0] = team.index + 1
        reducer.reduce(vector, 1 / team.workers)
        return float(begin[0] + end[0]) / 2

    vector[:] = 1
    return reduce


def _collective(options: Options, context: Context, team: _cluster.Alone) -> Callable[[], float]:
    """TensorFlow's collectives, over connections of its own, at the same port."""
    device = "gpu" if options.transport == "nccl" else "cpu"
    _tensorflow.prepare(device)
    assert context.place is not None  # noqa: S101 - it has a team
    import tensorflow as tf  # noqa: PLC0415  heavy

    if device == "gpu" and not tf.config.list_physical_devices("GPU"):
        raise BadInputError(
            "transport: nccl needs a GPU that TensorFlow sees (example: transport: strata); "
            "given: nccl, and none is visible"
        )
    _tensorflow.configure(options, context.cpus, 0, device)
    strategy = _grpc.strategy(context.place, nccl=options.transport == "nccl")
    context.environment.update(_tensorflow.environment())
    context.mark("imported")
    with tf.device(f"/{device}:0"):
        vector = tf.fill([options.size // FLOAT], float(team.index + 1))

    def all_of(values: Any) -> Any:
        def in_replica() -> Any:
            own = tf.distribute.get_replica_context()
            return own.all_reduce(tf.distribute.ReduceOp.MEAN, tf.identity(values))

        summed = strategy.run(in_replica)
        return (summed[0] + summed[-1]) / 2

    compiled = tf.function(all_of, autograph=False).get_concrete_function(vector)
    return lambda: float(compiled(vector))
