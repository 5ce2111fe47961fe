"""Fathom's memnet: an end-to-end memory network (Sukhbaatar et al. 2015, arXiv:1503.08895).

The question is the first one of bAbI: people go to places, one sentence after the other; where is
one of them now? Embeddings of 20, three hops and 50 sentences at most, as Fathom has them.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from workloads.deep_models.options import Options
from workloads.deep_models.task import Arrays, Classifier

EMBEDDING, HOPS = 20, 3
# People, places, sentences of a story.
SIZES = {"published": (20, 40, 50), "small": (3, 4, 6)}


def build(options: Options, _folder: Path | None) -> Classifier:
    """Words are people, and after them places; a sentence is two words."""
    people, places, sentences = SIZES[options.size]

    def make(rng: np.random.Generator, count: int) -> Arrays:
        who = rng.integers(0, people, (count, sentences))
        where = rng.integers(0, places, (count, sentences))
        asked = who[np.arange(count), rng.integers(0, sentences, count)]
        last = sentences - 1 - np.argmax((who == asked[:, None])[:, ::-1], 1)
        story = np.stack([who, people + where], 2).reshape(count, 2 * sentences)
        words = np.concatenate([story, asked[:, None]], 1).astype(np.int32)
        return words, where[np.arange(count), last].astype(np.int32)

    text = keras.Input((2 * sentences + 1,), dtype="int32")
    task = Classifier([keras.Model(text, Memory(people + places, places)(text))], make)
    task.clip = True
    return task


class Memory(layers.Layer):  # type: ignore[misc]  # Keras is untyped
    """Stories and their questions in, a logit for each place out."""

    def __init__(self, words: int, places: int) -> None:
        """The embeddings of sentences, of questions and of how long ago something was."""
        super().__init__()
        self._words, self._places = words, places

    def build(self, shape: Any) -> None:
        """Its variables."""
        sentences = (shape[1] - 1) // 2
        normal = keras.initializers.RandomNormal(stddev=0.1)

        def matrix(rows: int, columns: int = EMBEDDING) -> Any:
            return self.add_weight(shape=(rows, columns), initializer=normal)

        self.sentence, self.question = matrix(self._words), matrix(self._words)
        self.told, self.ago, self.told_ago = (
            matrix(self._words),
            matrix(sentences),
            matrix(sentences),
        )
        self.hop, self.answer = matrix(EMBEDDING), matrix(EMBEDDING, self._places)

    def call(self, words: Any) -> Any:
        """Three times looks for what resembles the question, and adds it to the question."""
        story = tf.reshape(words[:, :-1], [tf.shape(words)[0], -1, 2])
        keys = tf.reduce_sum(tf.gather(self.sentence.value, story), 2) + self.ago.value
        values = tf.reduce_sum(tf.gather(self.told.value, story), 2) + self.told_ago.value
        state = tf.gather(self.question.value, words[:, -1])
        for _ in range(HOPS):
            weights = tf.nn.softmax(tf.einsum("bse,be->bs", keys, state))
            state = state @ self.hop.value + tf.einsum("bs,bse->be", weights, values)
        return state @ self.answer.value

    def compute_output_shape(self, shape: Any) -> Any:
        """For Keras."""
        return shape[0], self._places
