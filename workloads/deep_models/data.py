"""Images whose classes can be told apart, made fast enough for the first epoch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

GRID = 4  # a class is a pattern of so many fields in each direction
PATTERNS = 20190924  # of the classes: the same for examples and for those that are asked about


def images(
    shape: tuple[int, int, int], classes: int
) -> Callable[[np.random.Generator, int], tuple["NDArray[Any]", ...]]:
    """A maker of uint8 [n, *shape] and int32 [n]: half the pattern of its class, half noise."""
    height, width, channels = shape
    fields = np.random.default_rng(PATTERNS).integers(
        0, 128, (classes, GRID, GRID, channels), np.uint8
    )
    large = fields.repeat(-(-height // GRID), 1).repeat(-(-width // GRID), 2)
    patterns = np.ascontiguousarray(large[:, :height, :width])

    def make(rng: np.random.Generator, count: int) -> tuple["NDArray[Any]", ...]:
        labels = rng.permutation(np.arange(count, dtype=np.int32) % classes)
        found = rng.integers(0, 128, (count, *shape), np.uint8)
        found += patterns[labels]
        return found, labels

    return make
