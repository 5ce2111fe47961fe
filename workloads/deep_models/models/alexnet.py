"""Fathom's alexnet, on images as ImageNet's, in the one tower of `tf_image_classification`."""

from pathlib import Path

from workloads.deep_models import data
from workloads.deep_models.options import Options
from workloads.deep_models.task import Images
from workloads.tf_image_classification import models

# Image, classes, filters of the first layer, units of the dense layers.
SIZES = {"published": ((224, 224, 3), 1000, 64, 4096), "small": ((96, 96, 3), 4, 8, 32)}


def build(options: Options, _folder: Path | None) -> Images:
    """61,100,840 parameters as published."""
    shape, classes, filters, units = SIZES[options.size]
    network = models.alexnet(shape, classes, filters, units)
    return Images([network], data.images(shape, classes))
