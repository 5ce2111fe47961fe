"""The architectures, as Keras models that return logits.

Inception v3 (Szegedy et al. 2015, arXiv:1512.00567) and ResNet-50 (He et al. 2015,
arXiv:1512.03385) are those of keras.applications with fresh weights.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from workloads.tf_image_classification.options import Options

ALEXNET = (64, 4096)  # filters of the first convolution, units of a dense layer
POOLED = 6  # AlexNet's last pooling leaves 6x6 of the published 224x224


def build(options: Options) -> Any:
    """The model of the options, under the current precision policy."""
    shape = (options.image_size, options.image_size, 3)
    if options.model == "alexnet":
        filters, units = (max(1, round(options.width * published)) for published in ALEXNET)
        return alexnet(shape, options.classes, filters, units)
    return BUILDERS[options.model](shape, options.classes)


def parameters(model: Any) -> int:
    """Trained and untrained parameters, as papers and Keras count them."""
    return int(model.count_params())


def inception_v3(shape: tuple[int, int, int], classes: int) -> Any:
    """23,851,784 parameters with 1000 classes."""
    return keras.applications.InceptionV3(
        weights=None, input_shape=shape, classes=classes, classifier_activation=None
    )


def resnet50(shape: tuple[int, int, int], classes: int) -> Any:
    """25,636,712 parameters with 1000 classes; stride in the first 1x1 convolution (version 1)."""
    return keras.applications.ResNet50(
        weights=None, input_shape=shape, classes=classes, classifier_activation=None
    )


def alexnet(shape: tuple[int, int, int], classes: int, filters: int, units: int) -> Any:
    """AlexNet in one tower (Krizhevsky 2014, arXiv:1404.5997), 61,100,840 parameters as published.

    Without local response normalisation, as in today's versions. For other sizes than the
    published one the last pooling adapts to 6x6, so that the dense layers (96 % of the
    parameters) stay as published and only the convolutions shrink or grow. Below 223 pixels
    that repeats values: the arithmetic is what it says, the accuracy would not be.
    """
    image = keras.Input(shape)
    x = layers.ZeroPadding2D(2)(image)
    x = layers.Conv2D(filters, 11, strides=4, activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = layers.Conv2D(3 * filters, 5, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2)(x)
    for times in (6, 4, 4):
        x = layers.Conv2D(times * filters, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2)(x)
    if tuple(x.shape[1:3]) != (POOLED, POOLED):
        x = layers.AdaptiveAveragePooling2D(POOLED)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dropout(0.5)(x)
        x = layers.Dense(units, activation="relu")(x)
    return keras.Model(image, layers.Dense(classes)(x), name="alexnet")


def tiny(shape: tuple[int, int, int], classes: int) -> Any:
    """1,392 parameters and 17 for each class: a step that costs next to nothing."""
    image = keras.Input(shape)
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(image)
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(classes)(x), name="tiny")


BUILDERS: dict[str, Callable[[tuple[int, int, int], int], Any]] = {
    "inception_v3": inception_v3,
    "resnet50": resnet50,
    "tiny": tiny,
}
