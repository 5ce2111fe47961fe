"""Arithmetic of a model, counted from its layers.

Convolutions and dense layers only, a multiply-add as 2; the rest is well below one per cent.
Training costs three times the forward pass: the gradients by inputs and by weights cost one
each (Amodei and Hernandez, "AI and Compute", OpenAI 2018, appendix).
"""

from math import prod
from typing import Any

TRAINING = 3


def forward(model: Any) -> int:
    """FLOP of the forward pass for one image."""
    return sum(layer_forward(layer) for layer in model.layers)


def training(model: Any) -> int:
    """FLOP of forward and backward pass for one image."""
    return TRAINING * forward(model)


def layer_forward(layer: Any) -> int:
    """FLOP of one layer for one image: each output value needs a kernel's worth of products."""
    kind = type(layer).__name__
    if kind == "Dense":
        return 2 * int(prod(layer.kernel.shape))
    if kind == "Conv2D":
        _, height, width, _ = layer.output.shape
        return 2 * int(prod(layer.kernel.shape)) * int(height) * int(width)
    if layer.weights and kind != "BatchNormalization":
        raise NotImplementedError(f"FLOP of a layer of kind {kind}")
    return 0
