"""The training step, the loop that measures it, and what is said about it."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from workloads import _cluster, _tensorflow, _trace
from workloads._options import BadInputError
from workloads._output import Context, FailureError, StepLog
from workloads.tf_image_classification import folder
from workloads.tf_image_classification.options import Options

INPUT_MARGIN = 1.5  # an input pipeline with less to spare is what bounds the training


def run(options: Options, context: Context) -> None:
    """One trial: builds, trains, probes, sums up."""
    # What is missing is said before the seconds that TensorFlow's import takes.
    found = folder.find(context.data_dir, options.classes) if options.data == "real" else None
    _tensorflow.prepare(options.device)
    with _cluster.joined(context, options) as team:
        _tensorflow.configure(options, context.cpus, options.seed, options.device, options.dtype)
        threads = _tensorflow.cores(context.cpus) if found is not None else 0
        context.environment.update(_tensorflow.environment(threads))
        context.mark("imported")
        team.connect()
        if isinstance(team, _cluster.Team) and team.serves:
            _cluster.serve(team, context, lambda: _optimizer(options))
        else:
            _work(options, context, team, found)


def _work(
    options: Options, context: Context, team: _cluster.Alone, found: folder.Folder | None
) -> None:
    """A worker's trial, with or without peers."""
    from workloads.tf_image_classification import data  # noqa: PLC0415

    if found is not None:
        folder.check_share(found, team.workers)
    threads = _tensorflow.cores(context.cpus)
    if isinstance(team, _cluster.Team):
        model, step = build_shared(options, context, team)
    else:
        model, step = build(options)
    loop = Loop(
        options,
        context.steps,
        step,
        data.synthetic(options, team.index)
        if found is None
        else iter(data.real(options, found, threads, team.index, team.workers)),
        team=team,
    )
    context.mark("built")
    try:
        cpu = measure(loop, options, context)
        images = len(loop.durations) * options.batch_size
        context.scalar("images_per_cpu_second", images / cpu)
        throughput = summarise(loop, model, options, context)
        team.finish(context)
        probe(loop, options, context, throughput)
    except data.ERRORS as error:
        if found is None:
            raise
        raise folder.explain(found, error) from error
    except StopIteration as error:
        raise BadInputError(
            "data_dir: the shards must hold records (example: train-00000-of-01024)"
            f"; given: {context.data_dir}, whose shards are empty"
        ) from error


def build(options: Options) -> tuple[Any, Callable[..., Any]]:
    """The model and one compiled training step: (images, labels) -> loss."""
    import tensorflow as tf  # noqa: PLC0415

    model, optimizer = _build(options)

    def step(images: Any, labels: Any) -> Any:
        loss, gradients = _differentiate(model, images, labels)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    # autograph=False: Keras layers need no conversion, and tracing is faster.
    return model, tf.function(step, jit_compile=options.xla, autograph=False)


def build_shared(
    options: Options, context: Context, team: _cluster.Team
) -> tuple[Any, Callable[..., Any]]:
    """The model and a step that exchanges its gradients with the other workers."""
    import tensorflow as tf  # noqa: PLC0415

    model, optimizer = _build(options)
    for variable in model.non_trainable_variables:
        if "seed_generator_state" in variable.path:  # each worker drops other units
            variable.assign(variable + team.index)

    def gradients(images: Any, labels: Any) -> Any:
        loss, found = _differentiate(model, images, labels)
        return loss, [tf.cast(gradient, tf.float32) for gradient in found]

    compiled = tf.function(gradients, jit_compile=options.xla, autograph=False)
    return model, _cluster.Exchange(team, context, compiled, model.trainable_variables, optimizer)


def _build(options: Options) -> tuple[Any, Any]:
    """Model and optimizer, with all their variables."""
    import tensorflow as tf  # noqa: PLC0415

    from workloads.tf_image_classification import models  # noqa: PLC0415

    with tf.device(f"/{options.device}:0"):
        model = models.build(options)
        optimizer = _optimizer(options)
        optimizer.build(model.trainable_variables)
    return model, optimizer


def _optimizer(options: Options) -> Any:
    from workloads import _optimizers  # noqa: PLC0415

    return _optimizers.make(options.optimizer, options.learning_rate)


def _differentiate(model: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    """Loss and gradients, while tracing."""
    import tensorflow as tf  # noqa: PLC0415

    with tf.GradientTape() as tape:
        logits = tf.cast(model(images, training=True), tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
    return loss, tape.gradient(loss, model.trainable_variables)


@dataclass
class Loop:
    """Steps one after the other; each waits for its batch, computes and fetches its loss."""

    options: Options
    log: StepLog
    step: Callable[..., Any]
    batches: Iterator[Any]
    number: int = 0
    team: _cluster.Alone = field(default_factory=_cluster.Alone)
    inputs: list[float] = field(default_factory=list)  # s, since `clear`
    durations: list[float] = field(default_factory=list)  # s, since `clear`
    first_loss: float | None = None
    loss: float = math.nan

    def clear(self) -> None:
        """Forgets the times so far."""
        self.inputs, self.durations = [], []

    def once(self) -> None:
        """Trains a step of which nothing is noted."""
        float(self.step(*next(self.batches)))

    def take(self, count: int, phase: str) -> None:
        """Trains that many steps; FailureError on a loss that is not a finite number."""
        step, batches, add, clock, wall_clock = (
            self.step,
            self.batches,
            self.log.add,
            time.monotonic,
            time.time,
        )
        team, items, number, loss = self.team, self.options.batch_size, self.number, self.loss
        worker = team.index
        inputs, durations = self.inputs, self.durations
        for number in range(self.number + 1, self.number + count + 1):
            wall, begin = wall_clock(), clock()
            batch = next(batches)
            ready = clock()
            loss = float(step(*batch))
            end = clock()
            if not math.isfinite(loss):
                raise FailureError(
                    f"loss: must be finite (example: a smaller learning_rate); "
                    f"given: {loss} in step {number}, learning_rate "
                    f"{self.options.learning_rate}"
                )
            inputs.append(ready - begin)
            durations.append(end - begin)
            exchange = team.took
            add(
                (
                    phase,
                    number,
                    worker,
                    begin,
                    wall,
                    items,
                    loss,
                    ready - begin,
                    end - ready - exchange,
                    exchange,
                    end - begin,
                )
            )
            if self.first_loss is None:
                self.first_loss = loss
        self.number, self.loss = number, loss


def measure(loop: Loop, options: Options, context: Context) -> float:
    """First step, trace, warm-up, measured window, with their marks; CPU seconds of the window."""
    team = loop.team
    context.mark("first_step_begin")
    loop.take(1, "warmup")
    context.mark("first_step_end")
    gc.freeze()  # Keras and the trace left a million objects: no collection walks them from here
    team.meet("first step", workers_only=True)
    trace(loop, options.trace_steps, context)
    loop.take(options.warmup_steps - 1, "warmup")
    loop.clear()
    team.begin_window()
    context.mark("warmup_end")
    used = time.process_time()
    if context.termination.awaited:
        loop.take(1, "measured")
        while not team.ends(context.termination):
            loop.take(1, "measured")
    else:
        loop.take(options.steps, "measured")
    used = time.process_time() - used
    context.mark("measured_end")
    team.end_window()
    return used


def trace(loop: Loop, count: int, context: Context) -> None:
    """Steps that the chief traces; what that costs is over before the warm-up."""
    if count and loop.team.chief:
        _trace.take(loop.once, count, context)
        return
    for _ in range(count):
        loop.once()


def summarise(loop: Loop, model: Any, options: Options, context: Context) -> float:
    """The scalars of the measured window; returns the throughput (images/s)."""
    from workloads.tf_image_classification import flops, models  # noqa: PLC0415

    window = context.marks["measured_end"] - context.marks["warmup_end"]
    throughput = len(loop.durations) * options.batch_size / window
    work = flops.training(model)
    context.scalar("throughput", throughput)
    context.scalar("step_median", statistics.median(loop.durations))
    context.scalar("input_share", sum(loop.inputs) / sum(loop.durations))
    context.scalar("parameters", models.parameters(model))
    context.scalar("flop_per_image", work)
    context.scalar("flops", work * throughput)
    context.scalar("loss_first", loop.first_loss or 0.0)
    context.scalar("loss_last", loop.loss)
    if options.xla and options.device == "cpu":
        context.flag(
            "xla_on_cpu",
            "XLA on a CPU was measured slower than TensorFlow's own "
            "kernels by nearly half; set xla: false",
        )
    return throughput


def probe(loop: Loop, options: Options, context: Context, throughput: float) -> None:
    """What the input alone and the cores alone can do; its time is no part of `elapsed`.

    Of a cluster only the chief does it, and when all have ended.
    """
    from workloads import _probe  # noqa: PLC0415
    from workloads.tf_image_classification import data, probe  # noqa: PLC0415

    context.mark("probe_begin")
    if not (options.probe and loop.team.chief):
        context.mark("probe_end")
        return
    if options.data == "real":
        capacity = probe.input_capacity(loop.batches, options.batch_size, data.PREFETCH)
        context.scalar("decode_capacity", capacity)
        if capacity < INPUT_MARGIN * throughput:
            context.flag(
                "input_bound",
                f"the input alone delivers {capacity:.0f} images/s, less "
                f"than {INPUT_MARGIN} times the {throughput:.0f} trained",
            )
    loop.batches = iter(())  # ends the pipeline's threads
    context.scalar("matmul_flops", _probe.matmul_flops(options.device, options.dtype))
    context.mark("probe_end")
