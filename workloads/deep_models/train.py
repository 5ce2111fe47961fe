"""The step, the epochs, and what is said about them."""

import gc
import importlib
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads import _idx, _tensorflow
from workloads._output import Context, FailureError
from workloads.deep_models.options import Options
from workloads.deep_models.task import CLIP, Task

ASKED = 145  # examples at least that the network is asked about, as many as MIT LL had
ASKED_SHARE = 16  # otherwise one for so many of an epoch


def run(options: Options, context: Context) -> None:
    """One trial: builds, trains or infers, asks, sums up."""
    if options.data == "real":  # what is missing is said before the seconds of the import
        _idx.paths(context.data_dir)
    _tensorflow.prepare(options.device)
    _tensorflow.configure(options, context.cpus, options.seed, options.device)
    context.environment.update(_tensorflow.environment())
    context.mark("imported")
    task = build(options, context)
    loop = Loop(options, context, task, compiled(options, task))
    context.mark("built")
    cpu = loop.run()
    summarise(options, context, task, loop, cpu)
    context.mark("probe_begin")
    if options.task == "training":
        context.scalar("accuracy", task.answers(compiled_later(task.right), options.batch_size))
    context.mark("probe_end")


def build(options: Options, context: Context | None = None) -> Task:
    """The model of the options, with its examples to come."""
    import tensorflow as tf  # noqa: PLC0415

    with tf.device(f"/{options.device}:0"):
        return network(options, context.data_dir if context and options.data == "real" else None)


def network(options: Options, folder: Path | None = None) -> Task:
    """The same in the framework that Keras has for its backend; in `folder` are real examples."""
    module = importlib.import_module(f"workloads.deep_models.models.{options.model}")
    task: Task = module.build(options, folder)
    others = max(ASKED, options.examples // ASKED_SHARE)
    asked = options.examples if options.task == "inference" else others
    task.prepare(options.seed, options.examples, asked)
    return task


def compiled(options: Options, task: Task) -> Callable[..., Any]:
    """A step, (batch) -> loss, with its update; or the answers to a batch.

    It is traced in the first step, since the examples are not there before.
    """
    import tensorflow as tf  # noqa: PLC0415

    from workloads import _optimizers  # noqa: PLC0415

    if options.task == "inference":
        return compiled_later(task.right)
    optimizer = _optimizers.make("adam", options.learning_rate)
    variables = task.variables
    with tf.device(f"/{options.device}:0"):
        optimizer.build(variables)

    def step(*batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = task.loss(*batch)
        slopes = [tf.convert_to_tensor(slope) for slope in tape.gradient(loss, variables)]
        if task.clip:
            slopes, _ = tf.clip_by_global_norm(slopes, CLIP)
        optimizer.apply(slopes, variables)
        return loss

    return compiled_later(step)


def compiled_later(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled at its first call, for batches of any length."""
    import tensorflow as tf  # noqa: PLC0415

    ready: list[Callable[..., Any]] = []

    def call(*batch: Any) -> Any:
        if not ready:
            signature = [tf.TensorSpec([None, *a.shape[1:]], a.dtype) for a in batch]
            ready.append(tf.function(function, signature, autograph=False))
        return ready[0](*batch)

    return call


@dataclass
class Loop:
    """All epochs, each a number of steps that wait for their batch, compute and fetch a value."""

    options: Options
    context: Context
    task: Task
    step: Callable[..., Any]
    number: int = 0
    first: float = math.nan  # loss
    losses: list[float] = field(default_factory=list)  # of the last epoch
    epochs: list[float] = field(default_factory=list)  # s
    durations: list[float] = field(default_factory=list)  # s, of the measured steps
    inputs: list[float] = field(default_factory=list)  # s, likewise

    def run(self) -> float:
        """CPU seconds of the measured epochs."""
        context = self.context
        context.mark("first_step_begin")
        self._epoch(0, "warmup")
        context.mark("warmup_end")
        self.durations.clear()
        self.inputs.clear()
        gc.freeze()  # what Keras and the trace left: no collection walks it from here
        used = time.process_time()
        for number in range(1, self.options.epochs):
            self._epoch(number, "measured")
        context.mark("measured_end")
        return time.process_time() - used

    def _batches(self, number: int) -> Iterator[Any]:
        if self.options.task == "inference":
            return self.task.asked(self.options.batch_size)
        return self.task.epoch(number, self.options.batch_size)

    def _epoch(self, number: int, phase: str) -> None:
        begin = time.monotonic()
        self.losses.clear()
        batches = self._batches(number)
        while self._take(batches, phase):
            pass
        self.epochs.append(time.monotonic() - begin)

    def _take(self, batches: Iterator[Any], phase: str) -> bool:
        """One step; whether there was a batch for it. FailureError on a loss that is no number."""
        wall, begin = time.time(), time.monotonic()
        batch = next(batches, None)
        if batch is None:
            return False
        ready = time.monotonic()
        value = float(self.step(*batch))
        end = time.monotonic()
        self.number += 1
        if not math.isfinite(value):
            raise FailureError(
                "loss: must be finite (example: a smaller learning_rate); given: "
                f"{value} in step {self.number}, learning_rate {self.options.learning_rate}"
            )
        loss = value if self.options.task == "training" else None
        spent = (ready - begin, end - ready, 0.0, end - begin)
        row = (phase, self.number, 0, begin, wall, len(batch[0]), loss)
        self.context.steps.add((*row, *spent))
        if self.number == 1:
            self.context.mark("first_step_end")
            self.first = value
        self.losses.append(value)
        self.durations.append(end - begin)
        self.inputs.append(ready - begin)
        return True


def summarise(options: Options, context: Context, task: Task, loop: Loop, cpu: float) -> None:
    """The scalars; the throughput is that of the measured epochs."""
    marks, scalar = context.marks, context.scalar
    window = marks["measured_end"] - marks["warmup_end"]
    scalar("throughput", options.examples * (options.epochs - 1) / window)
    scalar("batch_median", statistics.median(loop.durations))
    scalar("first_epoch", loop.epochs[0])
    scalar("epoch_time", statistics.median(loop.epochs[1:]))
    scalar("run_time", marks["measured_end"] - marks["first_step_begin"])
    scalar("input_share", sum(loop.inputs) / sum(loop.durations))
    scalar("busy", cpu / (window * _tensorflow.cores(context.cpus)))
    scalar("parameters", task.parameters)
    if options.task == "training":
        scalar("loss_first", loop.first)
        scalar("loss_last", statistics.mean(loop.losses))
