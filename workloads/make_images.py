"""Makes a data set of JPEGs that costs as much to read and decode as photographs do.

OUT/dataset/CLASS/NAME.jpg and OUT/dataset/manifest.json. ImageNet's training images have
about 110 KB and 500x375 pixels (Russakovsky et al. 2015, arXiv:1409.0575: 400x350 on
average). An image is noise at several scales, tinted by its class, so that there is something
to learn. Equal options and TensorFlow versions give equal bytes.
"""

import hashlib
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workloads import _dataset, _options
from workloads._declare import ONE, Metric
from workloads._options import refuse
from workloads._output import Context

COMMON = ("images", "classes", "seed")
ITEMS = None
METRICS = (
    Metric("made", "Images made", "images"),
    Metric("mean_size", "Mean size of an image", "bytes"),
)
TOPOLOGY, PORTS = ONE, ()
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 2**30
SECONDS_PER_MEGAPIXEL = 0.5  # pessimistic, one core
QUALITY_MAX = 100
# Wave lengths (pixels) of the noise and their amplitudes (of 255): photographs have most
# of their energy in the coarse ones. The finest sets the file size: 110 KB on average.
OCTAVES = ((128, 55.0), (32, 28.0), (8, 14.0), (2, 14.0))
GRAIN = (7.0, 19.0)


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `make_images`."""

    images: int = field(default=256, metadata={"help": "images in all", "unit": "images"})
    classes: int = field(default=8, metadata={"help": "classes, equally filled", "unit": "1"})
    width: int = field(default=500, metadata={"help": "width", "unit": "pixels"})
    height: int = field(default=375, metadata={"help": "height", "unit": "pixels"})
    quality: int = field(default=92, metadata={"help": "JPEG quality, 1 to 100", "unit": "1"})
    seed: int = field(default=1, metadata={"help": "seed of all noise", "unit": "1"})

    def __post_init__(self) -> None:
        """Refuses what cannot be made."""
        self.at_least(1, "images", "classes", "quality")
        self.at_least(16, "width", "height")
        self.at_least(0, "seed")
        if self.quality > QUALITY_MAX:
            raise refuse("quality", "must be at most 100", 92, self.quality)
        if self.classes > self.images:
            raise refuse("classes", f"must be at most images, {self.images}", 8, self.classes)


def estimate(options: Options, cores: float) -> float:
    """Seconds, pessimistic."""
    pixels = options.images * options.width * options.height
    return 15 + pixels / 1e6 * SECONDS_PER_MEGAPIXEL / min(cores, 1.0)


def run(options: Options, context: Context) -> None:
    """Writes OUT/dataset."""
    manifest = _dataset.make(context.out, lambda folder: _write(options, folder))
    context.scalar("made", options.images)
    context.scalar("mean_size", manifest["bytes"] / options.images)
    context.environment.update(tensorflow=manifest["tensorflow"], digest=manifest["digest"])


def _write(options: Options, folder: Path) -> dict[str, Any]:
    """All images; returns the manifest, whose digest is over names and contents in order."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf  # noqa: PLC0415  heavy

    encode = _encoder(tf, options)
    digest, size = hashlib.sha256(), 0
    for number in range(options.images):
        label = number % options.classes
        name = f"class{label:04d}/{number:06d}.jpg"
        content = encode(tf.constant(number), tf.constant(label)).numpy()
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        size += len(content)
    return {
        "schema": 1,
        "generator": "make_images",
        "options": asdict(options),
        "bytes": size,
        "tensorflow": tf.__version__,
        "digest": f"sha256:{digest.hexdigest()}",
    }


def _encoder(tf: Any, options: Options) -> Any:
    """A compiled function: (number, label) -> JPEG bytes."""

    def encode(number: Any, label: Any) -> Any:
        tint = tf.random.stateless_uniform([3], [options.seed, -1 - label], 60.0, 195.0)
        image = tf.broadcast_to(tint, [options.height, options.width, 3])
        for octave, (wave, amplitude) in enumerate(OCTAVES):
            key = [options.seed * len(OCTAVES) + octave, number]
            shape = [options.height // wave + 2, options.width // wave + 2, 3]
            noise = tf.random.stateless_normal(shape, key, stddev=amplitude)
            image += tf.image.resize(noise, [options.height, options.width])
        spread = tf.random.stateless_uniform([], [-1 - options.seed, number], *GRAIN)
        image += spread * tf.random.stateless_normal(
            [options.height, options.width, 1], [-2 - options.seed, number]
        )
        pixels = tf.cast(tf.clip_by_value(image, 0.0, 255.0), tf.uint8)
        return tf.io.encode_jpeg(pixels, quality=options.quality)

    return tf.function(encode)
