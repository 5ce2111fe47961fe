"""What the fork server of `forked` imports before it forks, as a workload would do it."""

import os

from workloads import _tensorflow

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
_tensorflow.prepare()

import keras  # noqa: E402, F401
import tensorflow  # noqa: E402, F401
