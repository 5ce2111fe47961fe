"""Trains the networks of three studies on data that it makes, and says what they learnt.

fcn5, cifar_alexnet, cifar_resnet50 and ptb_lstm of HKBU 2017, snn and lnn of MIT LL 2019, and the
eight of Fathom (Adolf et al., IISWC 2016), which IBM 2018 ran. Each is a file in `models`, which
gives a `task.Task`: the network, its examples, its loss, and how many answers are right.

    options.py   what can be set, and what the studies had; standard library only
    task.py      what a model gives
    data.py      images whose classes can be told apart
    train.py     the loop over epochs, and what is said about it
    with_jax.py  the step in JAX; `framework` chooses it, and with it the image family

The first epoch is apart from the others: it waits for its examples, which are made or read when
they are first asked for, and its first step compiles. All later ones are measured. What bounds
training is the cores: `busy` says which share of their time it used.
"""

from workloads._declare import ONE, Metric
from workloads._output import Context
from workloads.deep_models.options import COMMON, Options, estimate

__all__ = [
    "BACKGROUND",
    "COMMON",
    "FAMILY",
    "ITEMS",
    "MEMORY",
    "METRICS",
    "PORTS",
    "TOPOLOGY",
    "WRITABLE",
    "Options",
    "estimate",
    "run",
]

ITEMS = "examples"
METRICS = (
    Metric("throughput", "Throughput", "examples/s", "higher", headline=True),
    Metric("batch_median", "Time of a batch, median", "s", "lower", headline=True),
    Metric("first_epoch", "First epoch", "s", "lower", headline=True),
    Metric("epoch_time", "Later epochs, median", "s", "lower"),
    Metric("run_time", "All epochs", "s", "lower"),
    Metric("input_share", "Share of input", "1"),
    Metric("busy", "Share of the cores' time", "1", "higher"),
    Metric("parameters", "Parameters", "1"),
    Metric("loss_first", "First loss", "1"),
    Metric("loss_last", "Loss, mean of the last epoch", "1"),
    Metric("accuracy", "Right answers", "1", "higher"),
)
TOPOLOGY, PORTS = ONE, ()
BACKGROUND = False
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 2 * 2**30


def run(options: Options, context: Context) -> None:
    """Trains, or infers; imports the framework."""
    if options.framework == "jax":
        from workloads.deep_models import with_jax  # noqa: PLC0415  heavy

        with_jax.run(options, context)
    else:
        from workloads.deep_models import train  # noqa: PLC0415  heavy

        train.run(options, context)
