"""FCN5 of HKBU 2017: 784-2048-4096-1024-10, sigmoids, on images as MNIST's."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from workloads import _idx
from workloads._options import BadInputError
from workloads.deep_models import data
from workloads.deep_models.options import Options
from workloads.deep_models.task import Arrays, Images

if TYPE_CHECKING:
    import numpy as np

SIDE, CLASSES = 28, 10
HIDDEN = {"published": (2048, 4096, 1024), "small": (32, 32)}


def build(options: Options, folder: Path | None) -> Images:
    """On real images where there is a folder."""
    layers: list[Any] = [keras.Input((SIDE, SIDE, 1)), keras.layers.Flatten()]
    layers += [keras.layers.Dense(n, activation="sigmoid") for n in HIDDEN[options.size]]
    network = keras.Sequential([*layers, keras.layers.Dense(CLASSES)])
    if folder is None:
        return Images([network], data.images((SIDE, SIDE, 1), CLASSES))
    return Mnist([network], folder)


class Mnist(Images):
    """The same on real images: the file's first ones, read when they are asked for."""

    def __init__(self, networks: list[Any], folder: Path) -> None:
        """`folder` has MNIST's four files."""
        super().__init__(networks, self._read)
        self._folder, self._parts = folder, iter(("train", "test"))

    def _read(self, _rng: "np.random.Generator", count: int) -> Arrays:
        found = _idx.load(self._folder, next(self._parts))
        if len(found.labels) < count:
            raise BadInputError(
                f"examples: must be at most those of the data (example: examples: "
                f"{len(found.labels)}); given: {count}"
            )
        images = found.images[:count].reshape(count, SIDE, SIDE, 1)
        return images, found.labels[:count].astype("int32")
