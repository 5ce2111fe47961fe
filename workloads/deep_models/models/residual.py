"""Fathom's residual: ResNet-34 on images as ImageNet's; small: one block in each of two stages."""

from pathlib import Path

import keras

from workloads.deep_models import data
from workloads.deep_models.models._convolutional import residual
from workloads.deep_models.options import Options
from workloads.deep_models.task import Images

SHAPES = {"published": ((224, 224, 3), 1000), "small": ((32, 32, 3), 4)}
STAGES = {"published": ((3, 4, 6, 3), 64), "small": ((1, 1), 8)}


def build(options: Options, _folder: Path | None) -> Images:
    """Without bottlenecks."""
    shape, classes = SHAPES[options.size]
    image = keras.Input(shape)
    x = residual(image, *STAGES[options.size], bottleneck=False)
    network = keras.Model(image, keras.layers.Dense(classes)(x))
    return Images([network], data.images(shape, classes))
