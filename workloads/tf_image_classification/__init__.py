"""Trains an image classifier with TensorFlow and says how fast, and what it was bound by.

options.py    what can be set; standard library only
runtime.py    TensorFlow's threads, devices, precision; what was found
models.py     the published architectures          flops.py  their arithmetic
folder.py     what a data folder holds            data.py   batches, synthetic and real
optimizers.py updates in one pass over memory       probe.py  what these cores could do
train.py      the step, the loop, the result
"""

from workloads._output import Context
from workloads.tf_image_classification.options import COMMON, Options, estimate

__all__ = ["COMMON", "DISTRIBUTED", "Options", "estimate", "run"]

DISTRIBUTED = True


def run(options: Options, context: Context) -> None:
    """Trains; imports TensorFlow."""
    from workloads.tf_image_classification import train  # noqa: PLC0415  heavy

    train.run(options, context)
