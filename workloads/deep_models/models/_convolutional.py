"""Layers of convolutions that several models have."""

from collections.abc import Sequence
from typing import Any

from keras import layers


def residual(x: Any, blocks: Sequence[int], width: int, bottleneck: bool) -> Any:
    """The stages of a residual network (He et al. 2015, arXiv:1512.03385) and its pooling.

    `blocks` in each stage, the first with `width` filters and each with twice those of the one
    before. The stride of a bottleneck is in its 3x3 convolution.
    """
    x = normal(x, width, 7, 2)
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    for stage, count in enumerate(blocks):
        for number in range(count):
            stride = 2 if stage and not number else 1
            x = _block(x, width * 2**stage, stride, bottleneck)
    return layers.GlobalAveragePooling2D()(x)


def _block(x: Any, filters: int, stride: int, bottleneck: bool) -> Any:
    if bottleneck:
        y = normal(x, filters, 1)
        y = normal(y, filters, 3, stride)
        y = normal(y, 4 * filters, 1, active=False)
    else:
        y = normal(x, filters, 3, stride)
        y = normal(y, filters, 3, active=False)
    if stride > 1 or x.shape[-1] != y.shape[-1]:
        x = normal(x, y.shape[-1], 1, stride, active=False)
    return layers.ReLU()(layers.Add()([x, y]))


def normal(x: Any, filters: int, size: int, stride: int = 1, active: bool = True) -> Any:
    """A convolution, normalised over the batch, and activated."""
    x = layers.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    return layers.ReLU()(x) if active else x
