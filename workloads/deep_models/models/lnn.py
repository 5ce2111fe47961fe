"""The large network of MIT LL 2019: 28 layers, of which 8 convolutions, 4 dense and 6 dropout.

Which the other ten are the study does not say: here four poolings, five normalisations, and what
makes a vector of the images.
"""

from pathlib import Path
from typing import Any

from keras import layers

from workloads.deep_models.models._mitll import CLASSES, task
from workloads.deep_models.options import Options
from workloads.deep_models.task import Images

FILTERS = {"published": 16, "small": 4}


def build(options: Options, _folder: Path | None) -> Images:
    """Four stages of two convolutions, and four dense layers."""
    filters = FILTERS[options.size]
    found: list[Any] = []
    for stage in range(4):
        for _ in range(2):
            found += [layers.Conv2D(filters * 2**stage, 3, padding="same", activation="relu")]
        found += [layers.BatchNormalization(momentum=0.9), layers.MaxPooling2D(2)]
        found += [layers.Dropout(0.1)]
    found += [layers.Flatten(), layers.Dense(16 * filters, activation="relu")]
    found += [layers.BatchNormalization(momentum=0.9), layers.Dropout(0.2)]
    found += [layers.Dense(8 * filters, activation="relu"), layers.Dropout(0.2)]
    found += [layers.Dense(4 * filters, activation="relu"), layers.Dense(CLASSES)]
    return task(options, found)
