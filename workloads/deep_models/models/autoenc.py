"""Fathom's autoenc: a variational autoencoder (Kingma and Welling 2013, arXiv:1312.6114).

784-200-784 without hidden layers, as Fathom has it. An answer is a pixel on the right side of grey.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from workloads.deep_models.options import Options
from workloads.deep_models.task import Arrays, Task

SIDE = 28
PATTERNS = 16
FLIPPED = 0.05  # of the pixels
HIDDEN = {"published": 200, "small": 16}


def build(options: Options, _folder: Path | None) -> Task:
    """Black and white images, each a pattern with some pixels flipped."""
    hidden = HIDDEN[options.size]
    encoder = keras.Sequential([keras.Input((SIDE**2,)), layers.Dense(2 * hidden)])
    decoder = keras.Sequential([keras.Input((hidden,)), layers.Dense(SIDE**2)])
    patterns = np.random.default_rng(1).random((PATTERNS, 7, 7)).repeat(4, 1).repeat(4, 2)
    white = patterns.reshape(PATTERNS, SIDE**2) > 1 / 2

    def make(rng: np.random.Generator, count: int) -> Arrays:
        flipped = rng.random((count, SIDE**2)) < FLIPPED
        return ((white[rng.integers(0, PATTERNS, count)] ^ flipped).astype(np.float32),)

    return Autoencoder([encoder, decoder], make)


class Autoencoder(Task):
    """The network in two halves."""

    def loss(self, *batch: Any) -> Any:
        """What an image costs to be told, in nats: its error, and its code's divergence."""
        (images,) = batch
        mean, logarithm = tf.split(self.networks[0](images), 2, axis=1)
        code = mean + tf.exp(logarithm / 2) * tf.random.normal(tf.shape(mean))
        error = tf.reduce_sum((self.networks[1](code) - images) ** 2, 1) / 2
        divergence = tf.reduce_sum(tf.exp(logarithm) + mean**2 - 1 - logarithm, 1) / 2
        return tf.reduce_mean(error + divergence)

    def right(self, *batch: Any) -> Any:
        """Pixels that come back as they were, of the most likely code."""
        (images,) = batch
        mean, _ = tf.split(self.networks[0](images), 2, axis=1)
        back = tf.cast(self.networks[1](mean) > 1 / 2, tf.float32)
        return tf.reduce_mean(tf.cast(back == images, tf.float32))
