"""MNIST's files: IDX, plain or compressed (LeCun, Cortes and Burges; yann.lecun.com/exdb/mnist).

Two zero bytes, the type (8: unsigned bytes), the number of dimensions, each dimension as a
big-endian 32 bit number, then the values.
"""

import gzip
import struct
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from workloads._options import BadInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

UNSIGNED_BYTE = 8
SIDE = 28
CLASSES = 10
PARTS = {"train": "train", "test": "t10k"}
RULE = (
    "data_dir: needs MNIST's four IDX files, plain or .gz (example: "
    "/data/mnist/train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
    "t10k-labels-idx1-ubyte.gz)"
)


@dataclass(frozen=True)
class Set:
    """Images [n, 784] and labels [n] from 0 to 9."""

    images: "Bytes"
    labels: "Bytes"


def paths(folder: Path | None) -> dict[str, Path]:
    """The four files; BadInputError naming the first that is not there. Imports nothing heavy."""
    if folder is None or not folder.is_dir():
        raise BadInputError(f"{RULE}; given: {folder}, which is no folder")
    names = [f"{part}-{kind}" for part in PARTS.values() for kind in ("images-idx3", "labels-idx1")]
    found = {}
    for name in names:
        candidates = [folder / f"{name}-ubyte", folder / f"{name}-ubyte.gz"]
        there = next((path for path in candidates if path.is_file()), None)
        if there is None:
            raise BadInputError(f"{RULE}; given: {folder}, without {name}-ubyte")
        found[name] = there
    return found


def load(folder: Path | None, part: str) -> Set:
    """The `train` or the `test` part, checked; BadInputError naming the file that is not sound."""
    there, prefix = paths(folder), PARTS[part]
    image_path, label_path = there[f"{prefix}-images-idx3"], there[f"{prefix}-labels-idx1"]
    images, labels = read(image_path, 3), read(label_path, 1)
    if images.shape[1:] != (SIDE, SIDE):
        shape = "x".join(map(str, images.shape[1:]))
        raise _refuse(image_path, f"images must have {SIDE}x{SIDE} pixels", shape)
    if len(images) != len(labels):
        raise _refuse(label_path, f"must have a label for each of {len(images)} images",
                      f"{len(labels)} labels")  # fmt: skip
    if len(labels) == 0:
        raise _refuse(label_path, "must not be empty", "no labels")
    if labels.max() >= CLASSES:
        raise _refuse(label_path, "labels must be 0 to 9", f"a label {labels.max()}")
    return Set(images.reshape(len(images), SIDE * SIDE), labels)


def read(path: Path, dimensions: int) -> "Bytes":
    """The array of a file with that many dimensions; BadInputError where it is no such file."""
    import numpy as np  # noqa: PLC0415  not on a controller

    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise _refuse(path, "must be readable", str(error)) from error
    header = 4 + 4 * dimensions
    start = bytes((0, 0, UNSIGNED_BYTE, dimensions))
    if len(content) < header or content[:4] != start:
        given = f"a file of {len(content)} bytes that begins with {content[:4].hex()}"
        raise _refuse(path, f"must begin with {start.hex()}", given)
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != prod(shape):
        given = f"{len(content) - header} bytes after the header"
        raise _refuse(path, f"must hold {'x'.join(map(str, shape))} values", given)
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def write(path: Path, values: "Bytes") -> bytes:
    """Writes a file; returns its bytes."""
    header = bytes((0, 0, UNSIGNED_BYTE, values.ndim))
    content = header + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    path.write_bytes(content)
    return content


def _refuse(path: Path, rule: str, given: str) -> BadInputError:
    return BadInputError(f"data_dir: {path.name}: {rule} (example: MNIST's own); given: {given}")
