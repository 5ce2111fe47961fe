"""Fathom's vgg: VGG-19 (Simonyan and Zisserman 2014, arXiv:1409.1556) on images as ImageNet's."""

from pathlib import Path

import keras
from keras import layers

from workloads.deep_models import data
from workloads.deep_models.options import Options
from workloads.deep_models.task import Images

SHAPES = {"published": ((224, 224, 3), 1000), "small": ((16, 16, 3), 4)}
# Convolutions of each stage, filters of the first, filters at most, units of the dense layers.
STAGES = {"published": ((2, 2, 4, 4, 4), 64, 512, 4096), "small": ((1, 1), 8, 16, 32)}


def build(options: Options, _folder: Path | None) -> Images:
    """143,667,240 parameters as published."""
    shape, classes = SHAPES[options.size]
    stages, width, most, units = STAGES[options.size]
    x = image = keras.Input(shape)
    for stage, count in enumerate(stages):
        for _ in range(count):
            filters = min(most, width * 2**stage)
            x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dropout(0.5)(layers.Dense(units, activation="relu")(x))
    return Images([keras.Model(image, layers.Dense(classes)(x))], data.images(shape, classes))
