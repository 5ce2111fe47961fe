"""Makes a data set in MNIST's four files: digits that can be learnt, but not at a glance.

OUT/dataset/train-images-idx3-ubyte and the other three, and OUT/dataset/manifest.json. Each
class has several styles, smooth strokes that follow from the seed; an image is one of them,
shifted, bent, of some brightness, with noise. Equal options and numpy versions give equal
bytes. With the default size a linear model reaches about 90 %, one with 100 hidden units 97 %.
"""

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads import _dataset, _idx, _options
from workloads._declare import ONE, Metric
from workloads._output import Context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Numbers = NDArray[np.int64]

COMMON = ("train", "test", "seed")
ITEMS = None
METRICS = (Metric("made", "Images made", "images"),)
TOPOLOGY, PORTS = ONE, ()
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 2**29
SECONDS_PER_IMAGE = 2e-4  # pessimistic
STYLES = 4  # of each class
STROKE_POINTS = 5
MARGIN = 4  # pixels around a style: room to shift
SHIFT = 2  # pixels at the most, each way
NOISE = 0.3  # of full brightness
OTHER = 0.55  # of a style of another class is mixed in
BATCH = 5000
TRAIN, TEST = 0, 1


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `make_mnist`."""

    train: int = field(default=60_000, metadata={"help": "training images", "unit": "images"})
    test: int = field(default=10_000, metadata={"help": "test images", "unit": "images"})
    seed: int = field(default=1, metadata={"help": "of styles and images", "unit": "1"})

    def __post_init__(self) -> None:
        """Refuses what cannot be made."""
        self.at_least(_idx.CLASSES, "train", "test")
        self.at_least(0, "seed")


def estimate(options: Options, cores: float) -> float:
    """Seconds, pessimistic."""
    return 5 + (options.train + options.test) * SECONDS_PER_IMAGE / min(cores, 1.0)


def run(options: Options, context: Context) -> None:
    """Writes OUT/dataset."""
    manifest = _dataset.make(context.out, lambda folder: _write(options, folder))
    context.scalar("made", options.train + options.test)
    context.environment.update(numpy=manifest["numpy"], digest=manifest["digest"])


def _write(options: Options, folder: Path) -> dict[str, Any]:
    """The four files; returns the manifest, whose digest is over names and contents in order."""
    import numpy as np  # noqa: PLC0415  not on a controller

    styles = _styles(options.seed)
    digest, size = hashlib.sha256(), 0
    for part, count, number in (("train", options.train, TRAIN), ("test", options.test, TEST)):
        labels = np.random.default_rng([options.seed, number, 0]).permutation(
            np.arange(count) % _idx.CLASSES
        )
        images = _images(styles, labels, options.seed, number)
        for name, values in (
            ("images-idx3-ubyte", images),
            ("labels-idx1-ubyte", labels.astype(np.uint8)),
        ):
            path = folder / f"{_idx.PARTS[part]}-{name}"
            content = _idx.write(path, values)
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(content).digest())
            size += len(content)
    return {
        "schema": 1,
        "generator": "make_mnist",
        "options": asdict(options),
        "bytes": size,
        "numpy": np.__version__,
        "digest": f"sha256:{digest.hexdigest()}",
    }


def _styles(seed: int) -> "Floats":
    """[classes * styles, side, side] with a margin, from 0 to 1: pixels near a bent line."""
    import numpy as np  # noqa: PLC0415

    side = _idx.SIDE + 2 * MARGIN
    random = np.random.default_rng([seed, 2])
    y, x = np.mgrid[0:side, 0:side].astype(np.float32)
    found = np.zeros((_idx.CLASSES, STYLES, side, side), np.float32)
    for label in range(_idx.CLASSES):
        common = random.uniform(MARGIN + 5, side - MARGIN - 5, (STROKE_POINTS, 2))
        for style in range(STYLES):
            points = common + random.normal(0, 2.5, common.shape)
            line = _curve(points)
            distance = np.min(
                (x[..., None] - line[:, 0]) ** 2 + (y[..., None] - line[:, 1]) ** 2, axis=-1
            )
            found[label, style] = np.exp(-distance / 3.0)
    return found.reshape(-1, side, side)


def _curve(points: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Points along a smooth line from the first to the last (Catmull-Rom)."""
    import numpy as np  # noqa: PLC0415

    ends = np.concatenate([points[:1], points, points[-1:]])
    t = np.linspace(0, 1, 12)[:, None]
    pieces = []
    for a, b, c, d in zip(ends, ends[1:], ends[2:], ends[3:], strict=False):
        cubic = (3 * b - a - 3 * c + d) * t**3 + (2 * a - 5 * b + 4 * c - d) * t**2
        pieces.append((cubic + (c - a) * t + 2 * b) / 2)
    return np.concatenate(pieces)


def _images(styles: "Floats", labels: "Numbers", seed: int, part: int) -> "NDArray[np.uint8]":
    """Images [n, 28, 28] of the labels."""
    import numpy as np  # noqa: PLC0415

    found = np.empty((len(labels), _idx.SIDE, _idx.SIDE), np.uint8)
    for begin in range(0, len(labels), BATCH):
        chosen = labels[begin : begin + BATCH]
        random = np.random.default_rng([seed, part, 1, begin])
        own = chosen * STYLES + random.integers(0, STYLES, len(chosen))
        other = random.integers(0, len(styles), len(chosen))
        image = _shifted(styles, own, random)
        image += _shifted(styles, other, random) * random.uniform(
            0, OTHER, (len(chosen), 1, 1)
        ).astype(np.float32)
        image *= random.uniform(0.6, 1.0, (len(chosen), 1, 1)).astype(np.float32)
        image += NOISE * random.standard_normal(image.shape, np.float32)
        found[begin : begin + BATCH] = (np.clip(image, 0, 1) * 255).astype(np.uint8)
    return found


def _shifted(styles: "Floats", which: "Numbers", random: "np.random.Generator") -> "Floats":
    """Windows of the styles: shifted, and slanted by a shift that grows along the rows."""
    import numpy as np  # noqa: PLC0415

    side = np.arange(_idx.SIDE)
    shift = random.integers(-SHIFT, SHIFT + 1, (2, len(which), 1, 1))
    slant = random.uniform(-0.15, 0.15, (len(which), 1, 1))
    rows = MARGIN + shift[0] + side[None, :, None]
    bent = np.rint(slant * (side[None, :, None] - _idx.SIDE / 2)).astype(int)
    columns = MARGIN + shift[1] + bent + side[None, None, :]
    limit = styles.shape[1] - 1
    found: Floats = styles[which[:, None, None], rows, np.clip(columns, 0, limit)]
    return found
