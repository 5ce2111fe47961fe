"""ResNet-50 on images as CIFAR-10's, of HKBU 2017; small: one block in each of two stages."""

from pathlib import Path

import keras

from workloads.deep_models import data
from workloads.deep_models.models._convolutional import residual
from workloads.deep_models.options import Options
from workloads.deep_models.task import Images

SHAPE, CLASSES = (32, 32, 3), 10
STAGES = {"published": ((3, 4, 6, 3), 64), "small": ((1, 1), 4)}


def build(options: Options, _folder: Path | None) -> Images:
    """With bottlenecks."""
    image = keras.Input(SHAPE)
    x = residual(image, *STAGES[options.size], bottleneck=True)
    network = keras.Model(image, keras.layers.Dense(CLASSES)(x))
    return Images([network], data.images(SHAPE, CLASSES))
