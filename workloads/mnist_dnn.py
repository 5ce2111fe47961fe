"""Trains 784-100-10 on MNIST with Adam, as TensorFlow's `mnist_replica` of the WSU paper did.

A global step is one gradient that some worker contributed. Workers share `global_steps`:
asynchronous ones as they come; synchronous ones average the gradients of all, so that one
update counts as many global steps as there are workers.

Of n workers each reads every n-th image of the one shuffled order, so that n workers with
batches of b train on what a lone one with batches of n b would.
"""

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from workloads import _cluster, _idx, _tensorflow
from workloads._declare import WORKERS_AND_SERVERS, Metric
from workloads._options import BadInputError, refuse
from workloads._output import Context, FailureError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COMMON = ("global_steps", "batch_size", "log_every")
ITEMS = "images"
METRICS = (
    Metric("throughput", "Throughput", "images/s", "higher", headline=True, combine="throughput"),
    Metric("rate", "Rate", "steps/s", "higher", headline=True, combine="sum"),
    Metric("run_time", "Run time", "s", "lower", headline=True, combine="max"),
    Metric("step_median", "Median step", "s", "lower", combine="median"),
    Metric("time_delta", "Time delta of a worker", "s", "lower", combine="mean"),
    Metric("accuracy_max", "Highest accuracy", "1", "higher", combine="max"),
    Metric("accuracy_std", "Spread of accuracy", "1"),
    Metric("accuracy_last", "Last accuracy", "1", "higher"),
    Metric("local_steps", "Local steps", "steps", combine="sum"),
    *_cluster.SERVER_METRICS,
)
TOPOLOGY = WORKERS_AND_SERVERS
PORTS = _cluster.PORTS
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 3 * 2**28  # TensorFlow and 55 MB of images
STARTUP_S = 10.0  # of a process with a core to itself
STEP_S = 0.005  # pessimistic, one core


@dataclass(frozen=True)
class Options(_cluster.SharedOptions):
    """Options of `mnist_dnn`."""

    data: Literal["real"] = field(
        default="real", metadata={"help": "MNIST's four IDX files in data_dir", "unit": ""}
    )
    global_steps: int = field(
        default=10_000, metadata={"help": "gradients of all workers together", "unit": "steps"}
    )
    batch_size: int = field(
        default=100, metadata={"help": "images in a gradient", "unit": "images"}
    )
    hidden: int = field(default=100, metadata={"help": "hidden units", "unit": "1"})
    learning_rate: float = field(default=0.01, metadata={"help": "of Adam", "unit": "1"})
    log_every: int = field(
        default=10, metadata={"help": "a worker's own steps between two logs", "unit": "steps"}
    )
    evaluate_images: int = field(
        default=1000, metadata={"help": "test images for the accuracy of a log", "unit": "images"}
    )
    warmup_steps: int = field(
        default=10,
        metadata={"help": "each worker's own steps before the counted ones", "unit": "steps"},
    )
    seed: int = field(default=1, metadata={"help": "of weights and data order", "unit": "1"})

    def __post_init__(self) -> None:
        """Refuses what cannot run."""
        super().__post_init__()
        self.at_least(
            1, "global_steps", "batch_size", "hidden", "log_every", "evaluate_images",
            "warmup_steps",
        )  # fmt: skip
        self.at_least(0, "seed")
        if not 0 < self.learning_rate < float("inf"):
            raise refuse("learning_rate", "must be positive and finite", 0.01, self.learning_rate)


def estimate(options: Options, cores: float) -> float:
    """Seconds of a trial: rough, pessimistic.

    Workers that share cores share the global steps as well, so that only their start takes longer.
    """
    return STARTUP_S / min(cores, 1.0) + (options.global_steps + options.warmup_steps) * STEP_S


def run(options: Options, context: Context) -> None:
    """Trains; imports TensorFlow."""
    _idx.paths(context.data_dir)  # what is missing is said before the seconds of the import
    _tensorflow.prepare()
    with _cluster.joined(context, options) as team:
        _tensorflow.configure(options, context.cpus, options.seed)
        context.environment.update(_tensorflow.environment())
        context.mark("imported")
        team.connect()
        if isinstance(team, _cluster.Team) and team.serves:
            _cluster.serve(team, context, lambda: _optimizer(options))
        else:
            _work(options, context, team)


def _work(options: Options, context: Context, team: _cluster.Alone) -> None:
    """A worker's trial, with or without peers."""
    found = _idx.load(context.data_dir, "train")
    if len(found.labels) // team.workers < options.batch_size:
        raise BadInputError(
            f"batch_size: must be at most a worker's share of the images (example: 100); "
            f"given: {options.batch_size}, {len(found.labels)} images, {team.workers} workers"
        )
    test = _idx.load(context.data_dir, "test")
    step, accuracy = _build(options, context, team, test)
    trainer = Trainer(options, context, team, step, accuracy, batches(options, found, team))
    context.mark("built")
    trainer.warm_up()
    trainer.train()
    team.finish(context)
    trainer.summarise()


def batches(
    options: Options, found: _idx.Set, team: _cluster.Alone
) -> Iterator[tuple["NDArray[np.uint8]", "NDArray[np.int32]"]]:
    """This worker's batches without end: every epoch has an order of its own."""
    import numpy as np  # noqa: PLC0415

    labels, epoch = found.labels.astype(np.int32), 0
    while True:
        order = np.random.default_rng([options.seed, epoch]).permutation(len(labels))
        own = order[team.index :: team.workers]
        for begin in range(0, len(own) - options.batch_size + 1, options.batch_size):
            chosen = own[begin : begin + options.batch_size]
            yield found.images[chosen], labels[chosen]
        epoch += 1


def _build(
    options: Options, context: Context, team: _cluster.Alone, test: _idx.Set
) -> tuple[Callable[..., Any], Callable[[int | None], float]]:
    """A training step, (images, labels) -> loss, and the accuracy on the first test images."""
    import keras  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    pixels = _idx.SIDE**2
    model = keras.Sequential([
        keras.Input((pixels,)),
        keras.layers.Dense(options.hidden, activation="relu"),
        keras.layers.Dense(_idx.CLASSES),
    ])  # fmt: skip
    optimizer = _optimizer(options)
    optimizer.build(model.trainable_variables)
    signature = [
        tf.TensorSpec([options.batch_size, pixels], tf.uint8),
        tf.TensorSpec([options.batch_size], tf.int32),
    ]

    def logits(images: Any) -> Any:
        return model(tf.cast(images, tf.float32) / 255.0, training=True)

    def gradients(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits(images))
            )
        return loss, tape.gradient(loss, model.trainable_variables)

    def step(images: Any, labels: Any) -> Any:
        loss, found = gradients(images, labels)
        optimizer.apply(found, model.trainable_variables)
        return loss

    def right(images: Any, labels: Any) -> Any:
        guessed = tf.argmax(logits(images), 1, tf.int32)
        return tf.reduce_mean(tf.cast(guessed == labels, tf.float32))

    images, labels = tf.constant(test.images), tf.constant(test.labels, tf.int32)
    score = tf.function(right, autograph=False, reduce_retracing=True)

    def accuracy(count: int | None) -> float:
        return float(score(images[:count], labels[:count]))

    if isinstance(team, _cluster.Team):
        compiled = tf.function(gradients, signature, autograph=False)
        return _cluster.Exchange(
            team, context, compiled, model.trainable_variables, optimizer
        ), accuracy
    # The trace itself: tf.function's own dispatch costs a third of such a step.
    return tf.function(step, signature, autograph=False).get_concrete_function(), accuracy


def _optimizer(options: Options) -> Any:
    from workloads import _optimizers  # noqa: PLC0415  imports TensorFlow

    return _optimizers.make("adam", options.learning_rate)


class Trainer:
    """The loop: steps, logs, and what is said about them."""

    def __init__(
        self,
        options: Options,
        context: Context,
        team: _cluster.Alone,
        step: Callable[..., Any],
        accuracy: Callable[[int | None], float],
        source: Iterator[Any],
    ) -> None:
        """Nothing is trained yet."""
        import tensorflow as tf  # noqa: PLC0415

        self._tensor = tf.convert_to_tensor
        self.options, self.context, self.team = options, context, team
        self._step, self._accuracy, self._batches = step, accuracy, source
        self._number = 0
        self.done = 0  # own steps in the measured window
        self.accuracies: list[float] = []
        self.deltas: list[float] = []  # s, between two logs
        self.durations: list[float] = []  # s, of the measured steps

    def warm_up(self) -> None:
        """First step and the other ones that do not count; the first evaluation traces too."""
        context, team = self.context, self.team
        context.mark("first_step_begin")
        self.step("warmup")
        context.mark("first_step_end")
        self._accuracy(self.options.evaluate_images)
        gc.freeze()  # what Keras and the trace left: no collection walks it from here
        team.meet("first step", workers_only=True)
        for _ in range(self.options.warmup_steps - 1):
            self.step("warmup")
        self.durations.clear()
        team.begin_window()

    def train(self) -> None:
        """The global steps, with a log each `log_every` own ones."""
        last = self.context.mark("warmup_end")
        while not self._over():
            self.step("measured")
            self.done += 1
            if self.done % self.options.log_every == 0:
                last = self._log(last)
        self.context.mark("measured_end")
        self.team.end_window()
        if not self.accuracies:  # fewer steps than a log needs
            self._log(last)

    def _over(self) -> bool:
        """Whether the global steps are done, or the trial was told to end after this one."""
        if self.done == 0:
            return False
        if self.context.termination.awaited:
            return self.team.ends(self.context.termination)
        return self._global_steps() >= self.options.global_steps

    def _global_steps(self) -> int:
        """Of all workers in the measured window."""
        counted = self.team.global_steps
        if counted is None:
            return self.done * self.team.workers
        return counted - self.options.warmup_steps * self.team.workers

    def step(self, phase: str) -> None:
        """One step; FailureError on a loss that is not a finite number."""
        wall, begin = time.time(), time.monotonic()
        batch = [self._tensor(part) for part in next(self._batches)]
        ready = time.monotonic()
        loss = float(self._step(*batch))
        end = time.monotonic()
        self._number += 1
        if not math.isfinite(loss):
            raise FailureError(
                "loss: must be finite (example: a smaller learning_rate); given: "
                f"{loss} in step {self._number}, learning_rate {self.options.learning_rate}"
            )
        took = self.team.took
        self.durations.append(end - begin)
        self.context.steps.add(
            (
                phase,
                self._number,
                self.team.index,
                begin,
                wall,
                self.options.batch_size,
                loss,
                ready - begin,
                end - ready - took,
                took,
                end - begin,
            )
        )

    def _log(self, last: float) -> float:
        """Accuracy, and the time since the last log."""
        self.accuracies.append(self._accuracy(self.options.evaluate_images))
        now = time.monotonic()
        self.deltas.append(now - last)
        return now

    def summarise(self) -> None:
        """The scalars."""
        marks, scalar = self.context.marks, self.context.scalar
        window = marks["measured_end"] - marks["warmup_end"]
        scalar("run_time", window)
        scalar("time_delta", statistics.mean(self.deltas))
        scalar("accuracy_max", max(self.accuracies))
        scalar("accuracy_std", statistics.pstdev(self.accuracies))
        scalar("accuracy_last", self._accuracy(None))
        scalar("local_steps", self.done)
        scalar("rate", self.done / window)
        scalar("throughput", self.done * self.options.batch_size / window)
        scalar("step_median", statistics.median(self.durations))
