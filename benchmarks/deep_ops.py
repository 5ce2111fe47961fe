"""Is a kernel of `deep_ops` as fast as TensorFlow allows? `python benchmarks/deep_ops.py`.

Each kernel as the workload calls it (`ours`) against the operation called plainly (`bare`): eagerly
for products and convolutions, and Keras' layers for cells, over inputs of one feature, since the
product of the inputs is no part of the kernel. Both live in one process and take chunks of calls in
turn, in random order in each round. A ratio is formed within its round; printed are the median of
the rounds' ratios, with their range, and the FLOP/s of ours.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
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
CHUNK_S = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS))
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    _tensorflow.prepare()
    for name in given.kernels:
        ratios, rates = compare(name, given.rounds)
        low, high = min(ratios), max(ratios)
        print(
            f"{name:36} {statistics.median(ratios):.3f} of bare ({low:.3f} to {high:.3f}), "
            f"{statistics.median(rates) / 1e9:8.1f} GFLOP/s",
            flush=True,
        )


def compare(name: str, rounds: int) -> tuple[list[float], list[float]]:
    """Of each round the rate of ours over that of the plain call, and the FLOP/s of ours."""
    from workloads.deep_ops.functions import compiled  # noqa: PLC0415  imports TensorFlow

    kernel, order = parse(name), random.Random(1)  # noqa: S311  no secret
    ours = compiled(kernel, "forward", "float32", "cpu", 1)
    calls: dict[str, Callable[[], Any]] = {"ours": ours, "bare": bare(name, ours.operands)}
    for call in calls.values():
        call()
    chunk = max(1, round(CHUNK_S / seconds(ours, 3)))
    ratios, rates = [], []
    for _ in range(rounds):
        took = {who: seconds(calls[who], chunk) for who in order.sample(list(calls), 2)}
        ratios.append(took["bare"] / took["ours"])
        rates.append(kernel.flop("forward") / took["ours"])
    return ratios, rates


def seconds(call: Callable[[], Any], count: int) -> float:
    """Of one of that many calls."""
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


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
