"""What the cores and the memory of a trial can do at this moment; imports TensorFlow."""

import time
from typing import Any

import tensorflow as tf

MATMUL_S = 0.5
SIZES = {"cpu": 2048, "gpu": 8192}
COMPUTE_DTYPE = {"float32": "float32", "bfloat16": "bfloat16", "mixed_bfloat16": "bfloat16"}
NUMBERS = 2**25  # 128 MiB for each of two arrays: larger than a core's share of the last cache
SUM_S = 0.3
FLOAT = 4  # bytes


def matmul_flops(device: str, dtype: str) -> float:
    """FLOP/s of products of two large square matrices, for half a second."""
    size = SIZES[device]
    matrix = tf.cast(tf.random.stateless_uniform([size, size], [1, 2]), COMPUTE_DTYPE[dtype])

    # Fetching one value waits for the whole product.
    product = tf.function(lambda a: tf.matmul(a, a)[0, 0], autograph=False)
    float(product(matrix))
    count, begin = 0, time.monotonic()
    while (elapsed := time.monotonic() - begin) < MATMUL_S:
        float(product(matrix))
        count += 1
    return 2.0 * float(size) ** 3 * count / elapsed


def memory_bandwidth(device: str) -> float:
    """Bytes/s, read and written, of the fastest of the sums of two large arrays, in place."""
    with tf.device(f"/{device}:0"):
        total, other = tf.Variable(tf.zeros([NUMBERS])), tf.Variable(tf.ones([NUMBERS]))

        def add() -> Any:
            total.assign_add(other, read_value=False)
            return total[0]

        once = tf.function(add, autograph=False)
        float(once())
        took: list[float] = []
        until = time.monotonic() + SUM_S
        while not took or time.monotonic() < until:
            begin = time.perf_counter()
            float(once())
            took.append(time.perf_counter() - begin)
    return 3 * FLOAT * NUMBERS / min(took)
