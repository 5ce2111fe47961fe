"""TensorFlow as the workloads that train with it need it: quiet, with threads, devices, precision.

Importing this module imports the standard library only; its functions import TensorFlow, and
`prepare` comes before the first of them.
"""

import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads import _options
from workloads._options import BadInputError

ISA = ("amx", "avx2", "avx512", "avx_vnni", "asimd", "bf16", "sve")


@dataclass(frozen=True)
class ThreadOptions(_options.Options):
    """How many threads TensorFlow has."""

    intra_op_threads: int = field(
        default=0,
        metadata={
            "help": "threads within an operation; 0: the CPUs of the trial",
            "unit": "threads",
        },
    )
    inter_op_threads: int = field(
        default=0,
        metadata={
            "help": "operations at the same time; 0: the CPUs of the trial",
            "unit": "threads",
        },
    )

    def __post_init__(self) -> None:
        """Refuses numbers below zero."""
        self.at_least(0, "intra_op_threads", "inter_op_threads")


def prepare(device: str = "cpu") -> None:
    """The process, before TensorFlow is imported: quiet, and with nothing that it can do without.

    Keras imports matplotlib and pandas where they are installed, which takes 0.7 s of 2.6 s. The
    workload image has neither; without them a virtual environment starts as the image does.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    for name in ("matplotlib", "pandas"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None: cannot be imported


def configure(
    threads: ThreadOptions,
    cpus: int | None,
    seed: int,
    device: str = "cpu",
    dtype: str = "float32",
) -> None:
    """Threads, devices and precision; before anything is computed."""
    import keras  # noqa: PLC0415  heavy
    import tensorflow as tf  # noqa: PLC0415

    tf.config.threading.set_intra_op_parallelism_threads(threads.intra_op_threads or cpus or 0)
    tf.config.threading.set_inter_op_parallelism_threads(threads.inter_op_threads or cpus or 0)
    gpus = tf.config.list_physical_devices("GPU")
    if device == "gpu" and not gpus:
        raise BadInputError(
            "device: gpu needs a GPU that TensorFlow sees (example: device: cpu); "
            "given: gpu, and none is visible"
        )
    tf.config.set_visible_devices(gpus if device == "gpu" else [], "GPU")
    for gpu in gpus if device == "gpu" else []:
        tf.config.experimental.set_memory_growth(gpu, True)
    keras.config.set_dtype_policy(dtype)
    keras.utils.set_random_seed(seed)


def cores(cpus: int | None) -> int:
    """CPUs this process may use: what the trial was given, or else its affinity."""
    return cpus or len(os.sched_getaffinity(0))


def environment(data_threads: int = 0) -> dict[str, Any]:
    """What the numbers depend on and the options do not say; `data_threads` read the input."""
    import keras  # noqa: PLC0415  heavy
    import numpy as np  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415
    from tensorflow.python.util import _pywrap_util_port  # noqa: PLC0415

    threads = tf.config.threading
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    return {
        "python": platform.python_version(),
        "glibc": platform.libc_ver()[1],
        "numpy": np.__version__,
        "blas": f"{blas['name']} {blas.get('version', '')}".strip(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "quota": quota(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "onednn": bool(_pywrap_util_port.IsMklEnabled()),
        "onednn_isa": os.environ.get("ONEDNN_MAX_CPU_ISA", "default"),
        # 0 is TensorFlow's word for as many as the process has CPUs.
        "threads": {
            "intra_op": threads.get_intra_op_parallelism_threads() or cores(None),
            "inter_op": threads.get_inter_op_parallelism_threads() or cores(None),
            "data": data_threads,
        },
        "isa": isa(),
        "devices": [d.name for d in tf.config.get_visible_devices()],
    }


def quota(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> float | None:
    """How many CPUs' worth of time this process may use; None without limit, or if it can't see."""
    try:
        given, period = limit.read_text(encoding="ascii").split()
        return float(given) / float(period)
    except (OSError, ValueError):
        return None


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
