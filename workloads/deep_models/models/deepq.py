"""Fathom's deepq: deep Q-learning (Mnih et al. 2015, Nature 518), on the game of catch.

A ball falls from the top, one row at a time, and moves aside with each row or not; the paddle at
the bottom moves left, right or not, and is rewarded at the end for being where the ball is. Frames
are 84x84, the last four together, as published. Many games go on side by side: for each step one
move of all of them goes into the replay memory, and a batch is drawn from it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from numpy.typing import NDArray

from workloads.deep_models.options import Options
from workloads.deep_models.task import Arrays, Task

ACTIONS = 3
FRAMES = 4
GAMES = 32
REPLAY = 20_000  # moves that are remembered; a game is some KiB
DISCOUNT = 0.95
COPIED = 50  # steps between two copies of the network to its target
EXPLORED = 400  # steps over which the share of random moves falls to its least
LEAST_RANDOM = 0.1
# Fields of the board in each direction, pixels of a field, filters, units.
SIZES = {"published": (12, 7, 32, 512), "small": (5, 2, 4, 32)}


def build(options: Options, _folder: Path | None) -> Task:
    """Network and target, alike."""
    fields, pixels, filters, units = SIZES[options.size]
    side = fields * pixels
    networks = [_network(side, filters, units, large=options.size == "published") for _ in "12"]
    return Player(networks, fields, pixels)


def _network(side: int, filters: int, units: int, large: bool) -> Any:
    image = keras.Input((side, side, FRAMES), dtype="uint8")
    x = layers.Rescaling(1 / 255)(image)
    for times, size, stride in ((1, 8, 4), (2, 4, 2), (2, 3, 1)) if large else ((1, 2, 2),):
        x = layers.Conv2D(times * filters, size, strides=stride, activation="relu")(x)
    x = layers.Dense(units, activation="relu")(layers.Flatten()(x))
    return keras.Model(image, layers.Dense(ACTIONS)(x))


class Games:
    """Games of catch side by side, one move of all at a time."""

    def __init__(self, rng: np.random.Generator, count: int, fields: int, pixels: int) -> None:
        """All begin."""
        self._rng, self._count, self._fields, self._pixels = rng, count, fields, pixels
        side = fields * pixels
        self.frames = np.zeros((count, side, side, FRAMES), np.uint8)
        self._ball = np.zeros((count, 2), np.int64)  # row, column
        self._paddle = np.zeros(count, np.int64)
        self._begin(np.ones(count, bool))

    def _begin(self, which: NDArray[np.bool_]) -> None:
        number = int(which.sum())
        self._ball[which, 0] = 0
        self._ball[which, 1] = self._rng.integers(0, self._fields, number)
        self._paddle[which] = self._rng.integers(0, self._fields, number)
        self.frames[which] = self._seen()[which, :, :, None]

    def _seen(self) -> NDArray[np.uint8]:
        boards = np.zeros((self._count, self._fields, self._fields), np.uint8)
        each = np.arange(self._count)
        boards[each, -1, self._paddle] = 128
        boards[each, self._ball[:, 0], self._ball[:, 1]] = 255
        return boards.repeat(self._pixels, 1).repeat(self._pixels, 2)

    def move(self, actions: NDArray[Any]) -> Arrays:
        """(frames before, actions, rewards, frames after, whether it was the last move)."""
        before, last = self.frames.copy(), self._fields - 1
        self._paddle = np.clip(self._paddle + actions - 1, 0, last)
        aside = self._rng.integers(-1, 2, self._count)
        self._ball[:, 0] += 1
        self._ball[:, 1] = np.clip(self._ball[:, 1] + aside * (self._ball[:, 0] < last), 0, last)
        over = self._ball[:, 0] == last
        caught = np.where(self._ball[:, 1] == self._paddle, 1.0, -1.0)
        rewards = np.where(over, caught, 0.0).astype(np.float32)
        self.frames = np.concatenate([self.frames[..., 1:], self._seen()[..., None]], 3)
        after = self.frames.copy()
        self._begin(over)
        return before, actions.astype(np.int32), rewards, after, over.astype(np.float32)


class Player(Task):
    """Plays, remembers, and learns from what it remembers."""

    def __init__(self, networks: list[Any], fields: int, pixels: int) -> None:
        """`networks`: the one that learns, and the target that says what moves are worth."""
        super().__init__(networks, lambda rng, count: Games(rng, count, fields, pixels).move(
            rng.integers(0, ACTIONS, count)))  # fmt: skip
        self._fields, self._pixels = fields, pixels
        self._best = tf.function(lambda f: tf.argmax(networks[0](f), 1), autograph=False)
        self._memory: list[Arrays] = []
        self._steps = 0

    @property
    def variables(self) -> list[Any]:
        """Of the one that learns."""
        return list(self.networks[0].trainable_variables)

    def _copy(self) -> None:
        self.networks[1].set_weights(self.networks[0].get_weights())

    def prepare(self, seed: int, examples: int, asked: int) -> None:
        """Begins to play."""
        super().prepare(seed, examples, asked)
        self._copy()
        self._rng = np.random.default_rng([seed, 4])
        self._games = Games(self._rng, GAMES, self._fields, self._pixels)

    def epoch(self, number: int, batch_size: int) -> Iterator[Arrays]:
        """As many batches as examples fill; between two of them all games move once."""
        del number
        for begin in range(0, self._sizes[0], batch_size):
            if self._steps % COPIED == 0:
                self._copy()
            self._play()
            yield self._remembered(min(batch_size, self._sizes[0] - begin))
            self._steps += 1

    def _play(self) -> None:
        chance = max(LEAST_RANDOM, 1 - self._steps / EXPLORED)
        random = self._rng.random(GAMES) < chance
        actions = self._best(self._games.frames).numpy()
        actions[random] = self._rng.integers(0, ACTIONS, int(random.sum()))
        self._memory.append(self._games.move(actions))
        del self._memory[: -REPLAY // GAMES]

    def _remembered(self, count: int) -> Arrays:
        """Moves drawn from memory."""
        when = self._rng.integers(0, len(self._memory), count)
        which = self._rng.integers(0, GAMES, count)
        drawn = [[part[i] for part in self._memory[t]] for t, i in zip(when, which, strict=True)]
        return tuple(np.stack(part) for part in zip(*drawn, strict=True))

    def loss(self, *batch: Any) -> Any:
        """Squared error of the worth of a move, its part beyond 1 linear (Huber)."""
        before, actions, rewards, after, over = batch
        worth = tf.gather(self.networks[0](before), actions, batch_dims=1)
        later = tf.reduce_max(self.networks[1](after), 1)
        wrong = rewards + (1 - over) * DISCOUNT * tf.stop_gradient(later) - worth
        size = tf.abs(wrong)
        return tf.reduce_mean(tf.where(size < 1, wrong**2 / 2, size - 1 / 2))

    def right(self, *batch: Any) -> Any:
        """Whether a move is the target's best; in inference only, where nothing is learnt."""
        best = tf.argmax(self.networks[1](batch[0]), 1)
        chosen = tf.argmax(self.networks[0](batch[0]), 1)
        return tf.reduce_mean(tf.cast(best == chosen, tf.float32))

    def answers(self, right: Callable[..., Any], batch_size: int) -> float:
        """The share of games in which the ball is caught, without a random move."""
        del right, batch_size
        games = Games(np.random.default_rng(0), self._sizes[1], self._fields, self._pixels)
        for _ in range(self._fields - 1):
            *_, rewards, _, _ = games.move(self._best(games.frames).numpy())
        return float((rewards > 0).mean())
