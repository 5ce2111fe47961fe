"""What these cores could do at this moment: a large matmul, the input pipeline alone."""

import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

MATMUL_S = 0.5
CAPACITY_S = 1.0
SIZES = {"cpu": 2048, "gpu": 8192}
COMPUTE_DTYPE = {"float32": "float32", "bfloat16": "bfloat16", "mixed_bfloat16": "bfloat16"}


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


def input_capacity(batches: Iterator[Any], batch_size: int, ready: int) -> float:
    """Images/s of the input pipeline with nothing else to do, after what was ready is used up."""
    for _ in range(ready + 1):
        next(batches)
    count, begin = 0, time.monotonic()
    while (elapsed := time.monotonic() - begin) < CAPACITY_S or count == 0:
        next(batches)
        count += 1
    return count * batch_size / elapsed
