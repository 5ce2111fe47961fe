"""Is a kernel of `deep_ops` as fast as TensorFlow allows? `python benchmarks/deep_ops.py`.

Each kernel as the workload calls it (`ours`) against the operation called plainly (`bare`): eagerly
for products and convolutions, and Keras' layers for cells, over inputs of one feature, since the
product of the inputs is no part of the kernel. Both live in one process and take chunks of calls in
turn, in random order in each round. A ratio is formed within its round, of the time and of the CPU
time, which leaves out what other programs took of the cores; printed are the medians of the rounds'
ratios, the half of them that lies in the middle, and the FLOP/s of ours.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from workloads import _tensorflow  # noqa: E402
from workloads.deep_ops.kernels import Convolution, Gemm, parse  # noqa: E402

KERNELS = (
    "gemm 1760x128x1760 nn",
    "gemm 2560x7000x2560 nn",
    "gemm 3072x1500x1024 nn",
    "conv 8x56x56x64 64x3x3 p1x1 s1x1",
    "conv 8x28x28x128 512x1x1 p0x0 s2x2",
    "lstm 512x16x25",
    "gru 512x32x25",
)
CHUNK_S = 0.2  # short, so that both of a round meet the same neighbours


@dataclass(frozen=True)
class Took:
    """A call, on the average of a chunk (s)."""

    wall: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS))
    parser.add_argument("--rounds", type=int, default=25)
    given = parser.parse_args()
    _tensorflow.prepare()
    for name in given.kernels:
        ours, plain, flop = compare(name, given.rounds)
        rounds = list(zip(ours, plain, strict=True))
        print(
            f"{name:36} {said([other.wall / own.wall for own, other in rounds])} of bare, "
            f"by CPU time {said([other.cpu / own.cpu for own, other in rounds])}, "
            f"{statistics.median(flop / own.wall for own in ours) / 1e9:8.1f} GFLOP/s",
            flush=True,
        )


def said(ratios: list[float]) -> str:
    """The median, and the half of the rounds that lies in the middle."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def compare(name: str, rounds: int) -> tuple[list[Took], list[Took], int]:
    """What a call of ours and of the plain one took in each round, and the FLOP of one."""
    from workloads.deep_ops.functions import prepared  # noqa: PLC0415  imports TensorFlow

    kernel, order = parse(name), random.Random(1)  # noqa: S311  no secret
    ours = prepared(kernel, "forward", "float32", "cpu", 1)
    calls: dict[str, Callable[[], Any]] = {"ours": ours, "bare": bare(name, ours.operands)}
    for call in calls.values():
        call()
    chunk = max(1, round(CHUNK_S / timed(ours, 3).wall))
    found: dict[str, list[Took]] = {who: [] for who in calls}
    for _ in range(rounds):
        for who in order.sample(list(calls), 2):
            found[who].append(timed(calls[who], chunk))
    return found["ours"], found["bare"], kernel.flop("forward")


def timed(call: Callable[[], Any], count: int) -> Took:
    """That many calls, one after the other."""
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        call()
    return Took((time.perf_counter() - begin) / count, (time.process_time() - cpu) / count)


def bare(name: str, operands: tuple[Any, ...]) -> Callable[[], Any]:
    """The same as a user of TensorFlow writes it."""
    import keras  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    kernel = parse(name)
    one, other = operands
    if isinstance(kernel, Gemm):
        first, second = (letter == "t" for letter in kernel.transposes)
        return lambda: tf.matmul(one, other, transpose_a=first, transpose_b=second)
    if isinstance(kernel, Convolution):
        pads = [[0, 0], *[[pad, pad] for pad in kernel.pad], [0, 0]]
        return lambda: tf.nn.conv2d(one, other, list(kernel.stride), pads)
    kinds = {
        "vanilla": keras.layers.SimpleRNN,
        "lstm": keras.layers.LSTM,
        "gru": keras.layers.GRU,
    }
    layer = kinds[kernel.cell](kernel.hidden, return_sequences=True)
    sequence = tf.zeros([kernel.batch, kernel.steps, 1])
    compiled = tf.function(layer, autograph=False)
    return lambda: compiled(sequence)


if __name__ == "__main__":
    main()
