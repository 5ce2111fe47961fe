"""MNIST's files: made, read, refused."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from peers import Process

np = pytest.importorskip("numpy")

from workloads import _idx  # noqa: E402
from workloads._options import BadInputError  # noqa: E402

SMALL = {"train": 200, "test": 40}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mnist")
    return Process("make_mnist", folder, SMALL).well().out / "dataset"


def copy(made: Path, to: Path) -> Path:
    for path in made.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


def test_made_data_is_balanced_and_different(made: Path) -> None:
    train, test = _idx.load(made, "train"), _idx.load(made, "test")
    assert (train.images.shape, test.images.shape) == ((200, 784), (40, 784))
    assert np.bincount(train.labels).tolist() == [20] * 10
    assert not (train.images[:40] == test.images).all(axis=1).any()
    assert 20 < train.images.mean() < 110


def test_equal_seeds_give_equal_bytes(made: Path, tmp_path: Path) -> None:
    again = Process("make_mnist", tmp_path / "a", SMALL).well().out / "dataset"
    other = Process("make_mnist", tmp_path / "b", SMALL | {"seed": 2}).well().out / "dataset"
    names = sorted(path.name for path in made.iterdir())
    assert names[0] == "manifest.json"
    assert names[1:] == sorted(path.name for path in _idx.paths(made).values())
    assert all((made / name).read_bytes() == (again / name).read_bytes() for name in names)
    images = "train-images-idx3-ubyte"
    assert (made / images).read_bytes() != (other / images).read_bytes()


def test_compressed_files_are_the_same(made: Path, tmp_path: Path) -> None:
    for path in made.glob("*-ubyte"):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert (_idx.load(tmp_path, "train").images == _idx.load(made, "train").images).all()


def header(*shape: int) -> bytes:
    return bytes((0, 0, 8, len(shape))) + b"".join(n.to_bytes(4, "big") for n in shape)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("train-labels-idx1-ubyte", None, "without train-labels-idx1-ubyte"),
        ("train-labels-idx1-ubyte", b"", "a file of 0 bytes"),
        ("train-labels-idx1-ubyte", b"\x1f\x8b\x08", "must begin with 00000801"),
        ("train-labels-idx1-ubyte", header(200) + bytes(199), "must hold 200 values"),
        ("train-labels-idx1-ubyte", header(199) + bytes(199), "a label for each of 200 images"),
        ("train-labels-idx1-ubyte", header(200) + b"\x0a" * 200, "a label 10"),
        ("train-images-idx3-ubyte", header(200, 2, 2) + bytes(800), "28x28 pixels"),
        ("train-images-idx3-ubyte", header(200) + bytes(200), "must begin with 00000803"),
    ],
)
def test_bad_files_are_refused(
    made: Path, tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    folder = copy(made, tmp_path)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(BadInputError, match=reason):
        _idx.load(folder, "train")


def test_a_broken_archive_is_refused(made: Path, tmp_path: Path) -> None:
    folder = copy(made, tmp_path)
    path = folder / "t10k-labels-idx1-ubyte"
    (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes())[:-4])
    path.unlink()
    with pytest.raises(BadInputError, match="must be readable"):
        _idx.load(folder, "test")


@pytest.mark.parametrize("given", [None, Path("/nowhere")])
def test_no_folder_is_refused(given: Any) -> None:
    with pytest.raises(BadInputError, match="which is no folder"):
        _idx.paths(given)
