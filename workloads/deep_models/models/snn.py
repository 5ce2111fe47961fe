"""The small network of MIT LL 2019: 10 layers, of which 3 convolutions, 2 dense and 2 dropout.

Which the others are the study does not say: here poolings and what makes a vector of the images.
"""

from pathlib import Path

from keras import layers

from workloads.deep_models.models._mitll import CLASSES, task
from workloads.deep_models.options import Options
from workloads.deep_models.task import Images

FILTERS = {"published": 16, "small": 4}


def build(options: Options, _folder: Path | None) -> Images:
    """Two poolings halve the images and quarter them."""
    filters = FILTERS[options.size]

    def convolution(times: int) -> layers.Conv2D:
        return layers.Conv2D(times * filters, 3, padding="same", activation="relu")

    return task(
        options,
        [
            *(convolution(1), layers.MaxPooling2D(4)),
            *(convolution(2), layers.MaxPooling2D(4)),
            *(convolution(4), layers.Flatten(), layers.Dropout(0.25)),
            *(layers.Dense(4 * filters, activation="relu"), layers.Dropout(0.5)),
            layers.Dense(CLASSES),
        ],
    )
