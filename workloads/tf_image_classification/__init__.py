"""Trains an image classifier with TensorFlow and says how fast, and what it was bound by.

options.py    what can be set; standard library only
models.py     the published architectures          flops.py  their arithmetic
folder.py     what a data folder holds            data.py   batches, synthetic and real
train.py      the step, the loop, the result       probe.py  the input alone
"""

from workloads import _cluster, _trace
from workloads._declare import WORKERS_AND_SERVERS, Metric
from workloads._output import Context
from workloads.tf_image_classification.options import COMMON, Options, estimate

__all__ = [
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

ITEMS = "images"
METRICS = (
    Metric("throughput", "Throughput", "images/s", "higher", headline=True, combine="throughput"),
    Metric("step_median", "Median step", "s", "lower", combine="median"),
    Metric("images_per_cpu_second", "Images per CPU second", "images/s", "higher", combine="mean"),
    Metric("flops", "Achieved FLOP/s", "FLOP/s", "higher", combine="throughput"),
    Metric("matmul_flops", "Matmul FLOP/s", "FLOP/s", "higher"),
    Metric("decode_capacity", "Input alone", "images/s", "higher"),
    Metric("input_share", "Share of input", "1", combine="mean"),
    Metric("parameters", "Parameters", "1"),
    Metric("flop_per_image", "Work per image", "FLOP"),
    Metric("loss_first", "First loss", "1"),
    Metric("loss_last", "Last loss", "1"),
    *_trace.METRICS,
    *_cluster.SERVER_METRICS,
)
TOPOLOGY = WORKERS_AND_SERVERS
PORTS = _cluster.PORTS
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 2 * 2**30  # a full-size model (AlexNet, batch 32: 1.6 GiB)


def run(options: Options, context: Context) -> None:
    """Trains; imports TensorFlow."""
    from workloads.tf_image_classification import train  # noqa: PLC0415  heavy

    train.run(options, context)
