"""TensorFlow as the options ask for it: threads, devices, precision; and what it turned out to be.

Importing this module imports TensorFlow, so `train` prepares the process first.
"""

import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port

from workloads._options import BadInputError
from workloads.tf_image_classification.options import Options

ISA = ("amx", "avx2", "avx512", "avx_vnni", "asimd", "bf16", "sve")


def configure(options: Options, cpus: int | None) -> None:
    """Threads, devices and precision; before anything is computed."""
    tf.config.threading.set_intra_op_parallelism_threads(options.intra_op_threads or cpus or 0)
    tf.config.threading.set_inter_op_parallelism_threads(options.inter_op_threads or cpus or 0)
    gpus = tf.config.list_physical_devices("GPU")
    if options.device == "gpu" and not gpus:
        raise BadInputError(
            "device: gpu needs a GPU that TensorFlow sees (example: device: cpu); "
            "given: gpu, and none is visible"
        )
    tf.config.set_visible_devices(gpus if options.device == "gpu" else [], "GPU")
    for gpu in gpus if options.device == "gpu" else []:
        tf.config.experimental.set_memory_growth(gpu, True)
    keras.config.set_dtype_policy(options.dtype)
    keras.utils.set_random_seed(options.seed)


def cores(cpus: int | None) -> int:
    """CPUs this process may use: what the trial was given, or else its affinity."""
    return cpus or len(os.sched_getaffinity(0))


def environment(options: Options, cpus: int | None) -> dict[str, Any]:
    """What the numbers depend on and the options do not say."""
    threads = tf.config.threading
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "onednn": bool(_pywrap_util_port.IsMklEnabled()),
        "threads": {
            "intra_op": threads.get_intra_op_parallelism_threads(),
            "inter_op": threads.get_inter_op_parallelism_threads(),
            "data": cores(cpus) if options.data == "real" else 0,
        },
        "isa": isa(),
        "devices": [d.name for d in tf.config.get_visible_devices()],
    }


def isa(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The vector and matrix extensions of the CPU."""
    try:
        text = cpuinfo.read_text(encoding="utf-8")
    except OSError:
        return []
    return sorted(_extensions(text.splitlines()))


def _extensions(lines: Iterable[str]) -> set[str]:
    for line in lines:
        if line.lower().startswith(("flags", "features")):
            return {flag for flag in line.split() if flag.startswith(ISA)}
    return set()
