"""Trains networks with JAX: the same layers, examples, loss and optimizer.

Keras builds them for either framework, so that what differs between the two is what computes: XLA
for the whole step here, TensorFlow's kernels there. Of the networks, those of HKBU 2017, which
compared frameworks. JAX compiles for batches of one length: the last one of an epoch, where it is
shorter, is compiled in the first epoch, which is apart from the others.
"""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workloads import _tensorflow
from workloads._output import Context
from workloads.deep_models.options import Options

if TYPE_CHECKING:
    from workloads.deep_models.task import Task

PACKAGES = ("jax", "jaxlib", "keras", "numpy")


def run(options: Options, context: Context) -> None:
    """Builds, trains or infers, asks, sums up; imports JAX."""
    prepare(context.cpus)
    import keras  # noqa: PLC0415  heavy

    from workloads.deep_models import train  # noqa: PLC0415

    keras.utils.set_random_seed(options.seed)
    context.environment.update(environment(context.cpus))
    context.mark("imported")
    task = train.network(options)
    model = Model(task)
    loop = train.Loop(options, context, task, compiled(options, model))
    context.mark("built")
    cpu = loop.run()
    train.summarise(options, context, task, loop, cpu)
    context.mark("probe_begin")
    if options.task == "training":
        context.scalar("accuracy", task.answers(model.right, options.batch_size))
    context.mark("probe_end")


def prepare(cpus: int | None) -> None:
    """The process, before Keras is imported: its backend, and as many threads as CPUs."""
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["JAX_PLATFORMS"] = "cpu"
    # What XLA takes for the number of CPUs; by itself it counts those of the process.
    os.environ["NPROC"] = str(_tensorflow.cores(cpus))
    # As in `_tensorflow.prepare`: what Keras would take along where it is installed.
    for name in ("matplotlib", "pandas", "tensorflow"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None: cannot be imported


def environment(cpus: int | None) -> dict[str, Any]:
    """What the numbers depend on and the options do not say."""
    import jax  # noqa: PLC0415

    return {
        "python": platform.python_version(),
        "glibc": platform.libc_ver()[1],
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "cpus": sorted(os.sched_getaffinity(0)),
        "quota": _tensorflow.quota(),
        "threads": {"intra_op": _tensorflow.cores(cpus)},
        "isa": _tensorflow.isa(),
        "devices": [str(device) for device in jax.devices()],
    }


class Model:
    """A network as functions of its variables, which are kept here between steps."""

    def __init__(self, task: "Task") -> None:
        """`task`: a `Classifier`, built with JAX as the backend of Keras."""
        import jax  # noqa: PLC0415

        self.task, (self.network,) = task, task.networks
        self.trained = [variable.value for variable in self.network.trainable_variables]
        self.rest = [variable.value for variable in self.network.non_trainable_variables]
        self._right = jax.jit(self._answers)

    def logits(self, trained: Any, rest: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
        """And what of the rest is then, as the statistics of a normalisation."""
        from workloads.deep_models.task import Images  # noqa: PLC0415

        if isinstance(self.task, Images):
            inputs = inputs.astype("float32") / 127.5 - 1.0
        found: tuple[Any, Any] = self.network.stateless_call(
            trained, rest, inputs, training=training
        )
        return found

    def loss(self, trained: Any, rest: Any, inputs: Any, labels: Any) -> tuple[Any, Any]:
        """Cross entropy, mean over the batch and all that is predicted in it."""
        import jax  # noqa: PLC0415

        found, rest = self.logits(trained, rest, inputs, training=True)
        logs = jax.nn.log_softmax(found)
        chosen = jax.numpy.take_along_axis(logs, labels[..., None], axis=-1)
        return -chosen.mean(), rest

    def right(self, inputs: Any, labels: Any) -> Any:
        """The share of labels that have the largest logit."""
        return self._right(self.trained, self.rest, inputs, labels)

    def _answers(self, trained: Any, rest: Any, inputs: Any, labels: Any) -> Any:
        found, _ = self.logits(trained, rest, inputs, training=False)
        return (found.argmax(-1) == labels).mean()


def compiled(options: Options, model: Model) -> Callable[..., Any]:
    """A step, (batch) -> loss, with its update by Adam; or the answers to a batch."""
    if options.task == "inference":
        return model.right
    import jax  # noqa: PLC0415
    import keras  # noqa: PLC0415

    from workloads.deep_models.task import CLIP  # noqa: PLC0415

    optimizer = keras.optimizers.Adam(options.learning_rate)
    optimizer.build(model.network.trainable_variables)
    state = [variable.value for variable in optimizer.variables]

    def update(trained: Any, rest: Any, state: Any, inputs: Any, labels: Any) -> Any:
        slope = jax.value_and_grad(model.loss, has_aux=True)
        (loss, rest), slopes = slope(trained, rest, inputs, labels)
        if model.task.clip:
            norm = jax.numpy.sqrt(sum((each**2).sum() for each in slopes))
            slopes = [each * jax.numpy.minimum(1.0, CLIP / norm) for each in slopes]
        trained, state = optimizer.stateless_apply(state, slopes, trained)
        return trained, rest, state, loss

    ready = jax.jit(update, donate_argnums=(0, 1, 2))

    def step(inputs: Any, labels: Any) -> Any:
        nonlocal state
        model.trained, model.rest, state, loss = ready(
            model.trained, model.rest, state, inputs, labels
        )
        return loss

    return step
