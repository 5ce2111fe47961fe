"""What the two networks of MIT LL 2019 share: images of two channels in five classes."""

from collections.abc import Sequence
from typing import Any

import keras

from workloads.deep_models import data
from workloads.deep_models.options import Options
from workloads.deep_models.task import Images

SIDES = {"published": 256, "small": 32}
CHANNELS, CLASSES = 2, 5


def task(options: Options, layers: Sequence[Any]) -> Images:
    """A network of these layers."""
    shape = (SIDES[options.size], SIDES[options.size], CHANNELS)
    return Images([keras.Sequential([keras.Input(shape), *layers])], data.images(shape, CLASSES))
