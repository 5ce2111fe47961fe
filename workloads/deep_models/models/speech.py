"""Fathom's speech: Deep Speech (Hannun et al. 2014, arXiv:1412.5567) with the loss of connectionist
temporal classification (Graves et al. 2006).

Three dense layers, one that runs both ways, and one more, of 1024 units that are clipped at 20;
26 coefficients, 1,566 frames, 75 phonemes of 61 at most, as Fathom has of TIMIT. Here a phoneme is
a spectrum of its own, held for some frames, with noise and pauses.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from workloads.deep_models.options import Options
from workloads.deep_models.task import Arrays, Task

COEFFICIENTS = 26
CLIPPED = 20.0
NOISE = 0.3
# Phonemes that there are, of an utterance, frames of each (with its pause), units.
SIZES = {"published": (61, 75, 20, 1024), "small": (4, 3, 5, 32)}
PUBLISHED_FRAMES = 1566


def build(options: Options, _folder: Path | None) -> Task:
    """A logit for each phoneme, and for none, in each frame."""
    phonemes, spoken, held, units = SIZES[options.size]
    frames = PUBLISHED_FRAMES if options.size == "published" else spoken * held
    spectra = np.random.default_rng(1).normal(0, 1, (phonemes, COEFFICIENTS)).astype(np.float32)

    def clipped() -> Any:
        return layers.ReLU(max_value=CLIPPED)

    x = sound = keras.Input((frames, COEFFICIENTS))
    for _ in range(3):
        x = clipped()(layers.Dense(units)(x))
    both = layers.SimpleRNN(units, return_sequences=True, activation=clipped())
    x = clipped()(layers.Dense(units)(layers.Bidirectional(both, merge_mode="sum")(x)))
    network = keras.Model(sound, layers.Dense(phonemes + 1)(x))

    def make(rng: np.random.Generator, count: int) -> Arrays:
        labels = rng.integers(0, phonemes, (count, spoken), np.int32)
        found = np.zeros((count, spoken, held, COEFFICIENTS), np.float32)
        loud = np.arange(held) < rng.integers(held // 2, held, (count, spoken, 1))
        found += loud[..., None] * spectra[labels][:, :, None]
        sounds = np.zeros((count, frames, COEFFICIENTS), np.float32)
        sounds[:, : spoken * held] = found.reshape(count, spoken * held, COEFFICIENTS)
        sounds += NOISE * rng.standard_normal(sounds.shape, np.float32)
        return sounds, labels

    return Speech([network], make)


class Speech(Task):
    """Sounds, and what was said."""

    clip = True

    def loss(self, *batch: Any) -> Any:
        """Of all alignments of the phonemes with the frames."""
        sounds, labels = batch
        logits = self._by_time(sounds)
        lengths = tf.fill([tf.shape(labels)[0]], logits.shape[0])
        found = tf.compat.v1.nn.ctc_loss(_sparse(labels), logits, lengths)
        return tf.reduce_mean(found)

    def right(self, *batch: Any) -> Any:
        """Phonemes less those that must be changed, added or removed."""
        sounds, labels = batch
        logits = self._by_time(sounds)
        lengths = tf.fill([tf.shape(labels)[0]], logits.shape[0])
        (heard,), _ = tf.nn.ctc_greedy_decoder(logits, lengths)
        wrong = tf.edit_distance(tf.cast(heard, tf.int32), _sparse(labels))
        return tf.reduce_mean(tf.maximum(0.0, 1 - wrong))

    def _by_time(self, sounds: Any) -> Any:
        return tf.transpose(self.networks[0](sounds), [1, 0, 2])


def _sparse(labels: Any) -> Any:
    """The labels, of which 0 is one."""
    found = tf.sparse.from_dense(labels + 1)
    return tf.SparseTensor(found.indices, found.values - 1, found.dense_shape)
