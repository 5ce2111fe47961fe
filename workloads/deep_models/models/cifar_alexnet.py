"""AlexNet for CIFAR-10, as HKBU's benchmark has it: cuda-convnet's three layers of convolutions.

github.com/hclhkbu/dlbench, tools/tensorflow/cnn/alexnet: 85,098 parameters.
"""

from pathlib import Path

import keras
from keras import layers

from workloads.deep_models import data
from workloads.deep_models.options import Options
from workloads.deep_models.task import Images

SHAPE, CLASSES = (32, 32, 3), 10
FILTERS = {"published": (32, 32, 64), "small": (8, 8, 16)}


def build(options: Options, _folder: Path | None) -> Images:
    """Pooling 3x3 with stride 2 after each layer, the largest once and the mean twice."""
    first, second, third = FILTERS[options.size]
    image = keras.Input(SHAPE)
    x = layers.Conv2D(first, 5, padding="same")(image)
    x = layers.ReLU()(layers.MaxPooling2D(3, strides=2)(x))
    x = layers.Conv2D(second, 5, padding="same", activation="relu")(x)
    x = layers.AveragePooling2D(3, strides=2)(x)
    x = layers.Conv2D(third, 5, padding="same", activation="relu")(x)
    x = layers.Flatten()(layers.AveragePooling2D(3, strides=2)(x))
    return Images([keras.Model(image, layers.Dense(CLASSES)(x))], data.images(SHAPE, CLASSES))
