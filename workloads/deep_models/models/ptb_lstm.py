"""HKBU 2017's language model: two layers of LSTM with 256 states, on sequences of 32 characters.

Theirs are those of the Penn Treebank. Here a chain of characters: each is followed by a certain one
nine times of ten, and by any otherwise, so that nine answers of ten can be right.
"""

from pathlib import Path

import keras
import numpy as np
from keras import layers

from workloads.deep_models.options import Options
from workloads.deep_models.task import Arrays, Classifier

CHARACTERS = 50  # of the Penn Treebank
LIKELY = 0.9
# States, embedding, sequence.
SIZES = {"published": (256, 256, 32), "small": (32, 16, 16)}


def build(options: Options, _folder: Path | None) -> Classifier:
    """Predicts every next character."""
    states, embedding, length = SIZES[options.size]
    text = keras.Input((length,), dtype="int32")
    x = layers.Embedding(CHARACTERS, embedding)(text)
    for _ in range(2):
        x = layers.LSTM(states, return_sequences=True)(x)
    network = keras.Model(text, layers.Dense(CHARACTERS)(x))
    follows = np.random.default_rng(1).permutation(CHARACTERS)

    def make(rng: np.random.Generator, count: int) -> Arrays:
        found = np.empty((count, length + 1), np.int32)
        found[:, 0] = rng.integers(0, CHARACTERS, count)
        for at in range(length):
            other = rng.integers(0, CHARACTERS, count)
            found[:, at + 1] = np.where(rng.random(count) < LIKELY, follows[found[:, at]], other)
        return found[:, :-1], found[:, 1:]

    task = Classifier([network], make)
    task.clip = True
    return task
