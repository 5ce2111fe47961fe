"""What a data folder holds, seen from its names; standard library only.

CLASS/NAME.jpg or CLASS/NAME.jpeg, or ImageNet's TFRecord shards; other files are ignored.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workloads._options import BadInputError

SHARD = re.compile(r"train-\d+-of-\d+|.*\.tfrecords?")
JPEG = (".jpg", ".jpeg")
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
NAMED = 3  # broken files that an error names


@dataclass(frozen=True)
class Folder:
    """What a data folder holds: files with their labels, or shards."""

    path: Path
    files: tuple[str, ...]
    labels: tuple[int, ...] = ()
    shards: bool = False


def find(path: Path | None, classes: int) -> Folder:
    """Sees the format of a data folder; BadInputError where there is nothing to train on."""
    rule = (
        "data_dir: data: real needs a folder with CLASS/NAME.jpg or with TFRecord shards "
        "(example: /data/n01440764/1.jpg, /data/train-00000-of-01024)"
    )
    if path is None or not path.is_dir():
        raise BadInputError(f"{rule}; given: {path}, which is no folder")
    shards = sorted(str(p) for p in path.iterdir() if SHARD.fullmatch(p.name))
    if shards:
        return Folder(path, tuple(shards), shards=True)
    folders = sorted(p for p in path.iterdir() if p.is_dir())
    found = [images for images in map(_jpegs, folders) if images]
    if not found:
        raise BadInputError(f"{rule}; given: {path}, which has neither")
    if len(found) > classes:
        raise BadInputError(
            f"classes: must be at least the class folders of the data (example: "
            f"classes: {len(found)}); given: {classes}"
        )
    labels = [label for label, images in enumerate(found) for _ in images]
    return Folder(path, tuple(itertools.chain.from_iterable(found)), tuple(labels))


def _jpegs(folder: Path) -> list[str]:
    return sorted(str(p) for p in folder.iterdir() if p.suffix.lower() in JPEG)


def check_share(folder: Folder, workers: int) -> None:
    """Refuses a folder that has no image for each worker."""
    if not folder.shards and len(folder.files) < workers:
        raise BadInputError(
            f"data_dir: needs an image for each worker (example: {workers} images); "
            f"given: {len(folder.files)} in {folder.path}"
        )


def explain(folder: Folder, error: Exception) -> BadInputError:
    """What is wrong with the data, by name where a file shows it."""
    broken = [] if folder.shards else list(itertools.islice(_broken(folder.files), NAMED))
    reason = ", ".join(broken) if broken else str(error).strip().splitlines()[0][:300]
    return BadInputError(
        "data_dir: every file must be a complete JPEG of a known class "
        f"(example: a file of make_images); given in {folder.path}: {reason}"
    )


def _broken(files: Iterable[str]) -> Iterator[str]:
    """Files that do not begin and end as a JPEG does."""
    for name in files:
        content = Path(name).read_bytes()
        if not (content.startswith(JPEG_START) and JPEG_END in content[-64:]):
            yield name
