"""Is the workload's training loop as fast as TensorFlow allows? `python benchmarks/training.py`.

For each model: the workload's loop (`ours`), a bare loop over the same step (`same_step`),
a bare loop over a step written the plain way with Keras' optimizer (`bare`), and Keras `fit`.
`--presets` compares precisions and XLA, `--real` JPEGs with synthetic data.

A shared machine moves by a factor of two within minutes, so nothing is compared across
minutes: one process for each model holds all variants and takes chunks of about a second from
them in turn, in random order in each round. A ratio is formed within its round; what
is printed is the median of the rounds' ratios and their range.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from workloads import make_images  # noqa: E402
from workloads._output import Context, StepLog  # noqa: E402
from workloads.tf_image_classification.folder import find  # noqa: E402
from workloads.tf_image_classification.options import PUBLISHED, Options  # noqa: E402

Chunk = Callable[[int], tuple[float, float]]  # steps -> seconds, CPU-seconds
Rates = dict[str, list[tuple[float, float]]]  # variant -> images/s, images/CPU-s by round


def timed(work: Callable[[int], Any]) -> Chunk:
    """A chunk from something that does a number of steps."""

    def chunk(steps: int) -> tuple[float, float]:
        begin, cpu = time.perf_counter(), time.process_time()
        work(steps)
        return time.perf_counter() - begin, time.process_time() - cpu

    return chunk


def ours(options: Options, log: StepLog, folder: Path | None = None) -> Chunk:
    """The workload's own loop."""
    import keras  # noqa: PLC0415

    from workloads import _tensorflow  # noqa: PLC0415
    from workloads.tf_image_classification import data, train  # noqa: PLC0415

    keras.config.set_dtype_policy(options.dtype)
    _, step = train.build(options)
    batches = (
        data.synthetic(options)
        if folder is None
        else iter(data.real(options, find(folder, options.classes), _tensorflow.cores(None)))
    )
    loop = train.Loop(options, log, step, batches)
    return timed(lambda steps: loop.take(steps, "measured"))


def same_step(options: Options) -> Chunk:
    """The workload's step in the barest loop: what differs from `ours` is the loop alone."""
    from workloads.tf_image_classification import data, train  # noqa: PLC0415

    _, step = train.build(options)
    batch = next(data.synthetic(options))
    return timed(lambda steps: _bare_loop(step, batch, steps))


def bare(options: Options) -> Chunk:
    """A step and a loop as TensorFlow's tutorials write them."""
    import keras  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    from workloads.tf_image_classification import data, models  # noqa: PLC0415

    model, optimizer = models.build(options), keras_optimizer(options)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    compiled = tf.function(step, jit_compile=options.xla)
    batch = next(data.synthetic(options))
    return timed(lambda steps: _bare_loop(compiled, batch, steps))


def _bare_loop(step: Callable[..., Any], batch: Any, steps: int) -> None:
    for _ in range(steps):
        loss = step(*batch)
    float(loss)


def fit(options: Options) -> Chunk:
    """Keras `fit`, timed from the end of its first step: its start-up is not held against it."""
    import keras  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    from workloads.tf_image_classification import data, models  # noqa: PLC0415

    model = models.build(options)
    model.compile(
        keras_optimizer(options),
        jit_compile=options.xla,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    batches = tf.data.Dataset.from_tensors(next(data.synthetic(options))).repeat()
    seen: list[tuple[float, float]] = []
    ends = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda *_, **__: seen.append((time.perf_counter(), time.process_time()))
    )

    def chunk(steps: int) -> tuple[float, float]:
        seen.clear()
        model.fit(batches, steps_per_epoch=steps + 1, verbose=0, shuffle=False, callbacks=[ends])
        return seen[-1][0] - seen[0][0], seen[-1][1] - seen[0][1]

    return chunk


def keras_optimizer(options: Options) -> Any:
    """Keras' own optimizer of that name."""
    import keras  # noqa: PLC0415

    kinds = {
        "sgd": keras.optimizers.SGD,
        "adam": keras.optimizers.Adam,
        "rmsprop": keras.optimizers.RMSprop,
        "momentum": lambda rate: keras.optimizers.SGD(rate, momentum=0.9),
    }
    return kinds[options.optimizer](options.learning_rate)


def variants(mode: str, options: Options, log: StepLog, folder: Path) -> dict[str, Chunk]:
    """What is compared; the first is the one whose ratio to the others is printed."""
    if mode == "presets":
        return {
            "float32": ours(replace(options, dtype="float32"), log),
            "mixed_bfloat16": ours(replace(options, dtype="mixed_bfloat16"), log),
            "xla": ours(replace(options, dtype="float32", xla=True), log),
        }
    if mode == "real":
        images(folder)
        return {
            "real": ours(replace(options, data="real"), log, folder / "dataset"),
            "synthetic": ours(options, log),
        }
    return {
        "ours": ours(options, log),
        "same_step": same_step(options),
        "bare": bare(options),
        "fit": fit(options),
    }


def images(folder: Path) -> None:
    """A generated data set."""
    with StepLog(folder / "steps.jsonl") as steps:
        make_images.run(
            make_images.Options(),
            Context("make_images", folder, steps, metrics=make_images.METRICS),
        )


def measure(chunks: dict[str, Chunk], batch: int, rounds: int, seconds: float, seed: int) -> Rates:
    """Chunks in random order in each round, of as many steps as take about that long."""
    for chunk in chunks.values():
        chunk(3)
    steps = max(2, round(seconds / min(chunk(3)[0] / 3 for chunk in chunks.values())))
    order, shuffle = list(chunks), random.Random(seed)  # noqa: S311  no secret
    rates: Rates = {name: [] for name in chunks}
    for _ in range(rounds):
        shuffle.shuffle(order)
        for name in order:
            wall, cpu = chunks[name](steps)
            rates[name].append((steps * batch / wall, steps * batch / cpu))
    return rates


def worker(given: argparse.Namespace) -> None:
    """One model in a process of its own; its rates as JSON, on the last line of stdout."""
    from workloads import _tensorflow  # noqa: PLC0415

    options = Options(
        model=given.worker,
        batch_size=given.batch,
        image_size=given.image_size,
        dtype=given.dtype,
        optimizer=given.optimizer,
    )
    _tensorflow.prepare(options.device)
    from workloads.tf_image_classification import data, probe  # noqa: PLC0415

    _tensorflow.configure(options, None, options.seed, options.device, options.dtype)
    found: dict[str, Any] = {"isa": _tensorflow.isa(), "size": options.image_size}
    with tempfile.TemporaryDirectory() as name, StepLog(Path(name) / "log") as log:
        chunks = variants(given.mode, options, log, Path(name))
        found["rates"] = measure(chunks, given.batch, given.rounds, given.seconds, given.seed)
        if given.mode == "real":
            folder = find(Path(name) / "dataset", options.classes)
            alone = iter(data.real(replace(options, data="real"), folder, _tensorflow.cores(None)))
            found["capacity"] = probe.input_capacity(alone, given.batch, data.PREFETCH)
    print(json.dumps(found))


def spread(values: list[float], form: str = ".3f") -> str:
    """Median with range."""
    return f"{statistics.median(values):{form}} [{min(values):{form}} .. {max(values):{form}}]"


def show(model: str, batch: int, found: dict[str, Any]) -> None:
    """The table of one model."""
    rates: Rates = found["rates"]
    first = next(iter(rates))
    print(
        f"\n{model}, batch {batch}, {found['size']} px"
        f"{', with' if any('amx' in f for f in found['isa']) else ', no'} AMX"
    )
    for name, values in rates.items():
        wall, cpu = zip(*values, strict=True)
        print(
            f"  {name:15} {spread(list(wall), '.1f'):>30} images/s "
            f"{spread(list(cpu), '.1f'):>30} images/CPU-s"
        )
    for name in list(rates)[1:]:
        pairs = list(zip(rates[first], rates[name], strict=True))
        print(
            f"  {first}/{name}: {spread([a[0] / b[0] for a, b in pairs])}, by CPU-second "
            f"{spread([a[1] / b[1] for a, b in pairs])}"
        )
        if model == "tiny" and first == "ours":
            extra = [1e3 * batch * (1 / a[0] - 1 / b[0]) for a, b in pairs]
            print(f"    extra ms a step over {name}: {spread(extra)}")
    if "capacity" in found:
        print(f"  decode capacity: {found['capacity']:.0f} images/s")


def main() -> int:
    """Runs each model in a process of its own and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=PUBLISHED, default=list(PUBLISHED))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one chunk, about")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=0, help="0: as published")
    parser.add_argument(
        "--dtype", default="float32", choices=("float32", "bfloat16", "mixed_bfloat16")
    )
    parser.add_argument(
        "--optimizer", default="momentum", choices=("sgd", "momentum", "adam", "rmsprop")
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--presets", dest="mode", action="store_const", const="presets")
    parser.add_argument("--real", dest="mode", action="store_const", const="real")
    parser.add_argument("--worker", choices=PUBLISHED, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given)
        return 0
    for model in given.models:
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--worker", model],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        show(model, given.batch, json.loads(done.stdout.splitlines()[-1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
