"""Fathom's seq2seq: translation by layers of LSTM with attention (Bahdanau et al. 2014,
arXiv:1409.0473), with a softmax over some of many words (Jean et al. 2014, arXiv:1412.2007).

Three layers of 256, 40,000 words and sentences of 40 as in Fathom's largest bucket. The language to
learn has a word for each of the other's and says sentences from their end.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from workloads.deep_models.options import Options
from workloads.deep_models.task import Arrays, Task

SAMPLED = 512  # words that a softmax in training compares with, where there are more
# Words, length of sentences, layers, units.
SIZES = {"published": (40_000, 40, 3, 256), "small": (8, 5, 1, 48)}


def build(options: Options, _folder: Path | None) -> Task:
    """Encoder and decoder as one network, from both sentences to a vector for each word."""
    words, length, depth, units = SIZES[options.size]
    source = keras.Input((length,), dtype="int32")
    before = keras.Input((length,), dtype="int32")  # the words so far; `words` begins
    x, states = layers.Embedding(words, units)(source), []
    for _ in range(depth):
        x, *state = layers.LSTM(units, return_sequences=True, return_state=True)(x)
        states.append(state)
    y = layers.Embedding(words + 1, units)(before)
    for state in states:
        y = layers.LSTM(units, return_sequences=True)(y, initial_state=state)
    seen = layers.AdditiveAttention()([y, x])
    y = layers.Dense(units, activation="tanh")(layers.Concatenate()([y, seen]))
    network = keras.Model([source, before], y)
    dictionary = np.random.default_rng(1).permutation(words).astype(np.int32)

    def make(rng: np.random.Generator, count: int) -> Arrays:
        sentences = rng.integers(0, words, (count, length), np.int32)
        return sentences, dictionary[sentences[:, ::-1]]

    projection = keras.Sequential([keras.Input((units,)), layers.Dense(words)])
    return Translation([network, projection], make, words)


class Translation(Task):
    """Sentences and their translations."""

    clip = True

    def __init__(self, networks: list[Any], make: Any, words: int) -> None:
        """`networks`: up to the vectors, and from them to words."""
        super().__init__(networks, make)
        self._words = words

    def _vectors(self, source: Any, target: Any) -> Any:
        begin = tf.fill([tf.shape(target)[0], 1], self._words)
        return self.networks[0]([source, tf.concat([begin, target[:, :-1]], 1)])

    def _logits(self, vectors: Any) -> Any:
        kernel, bias = (v.value for v in self.networks[1].trainable_variables)
        return vectors @ kernel + bias

    def loss(self, *batch: Any) -> Any:
        """Cross entropy of the next word, over all words or over a sample of them."""
        source, target = batch
        vectors = self._vectors(source, target)
        if self._words <= SAMPLED:
            logits = self._logits(vectors)
            found = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
        else:
            kernel, bias = (v.value for v in self.networks[1].trainable_variables)
            found = tf.nn.sampled_softmax_loss(
                weights=tf.transpose(kernel),
                biases=bias,
                labels=tf.reshape(target, [-1, 1]),
                inputs=tf.reshape(vectors, [-1, vectors.shape[-1]]),
                num_sampled=SAMPLED,
                num_classes=self._words,
            )
        return tf.reduce_mean(found)

    def right(self, *batch: Any) -> Any:
        """Words that follow rightly on the right ones before."""
        source, target = batch
        found = tf.argmax(self._logits(self._vectors(source, target)), -1, tf.int32)
        return tf.reduce_mean(tf.cast(found == target, tf.float32))
