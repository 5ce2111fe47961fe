"""The registry and the options, as the controller uses them: without TensorFlow."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import workloads
from workloads._options import BadInputError

ROOT = Path(__file__).resolve().parents[3]
TRAINING = "tf_image_classification"


@pytest.mark.parametrize("name", workloads.NAMES)
def test_every_workload_says_what_it_is(name: str) -> None:
    found = workloads.workload(name)
    names = [f.name for f in fields(found.Options)]
    assert set(found.COMMON) <= set(names)
    assert all(f.metadata["help"] for f in fields(found.Options))
    assert callable(found.run)
    assert found.estimate(found.Options(), 2) > 0


def test_the_controller_needs_no_tensorflow() -> None:
    code = (
        "import sys, workloads\n"
        "for n in workloads.NAMES: o = workloads.options(n)(); workloads.estimate(n, o, 2)\n"
        "sys.exit(bool({'tensorflow', 'keras', 'numpy', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"stepz": 1}, "did you mean steps?"),
        ({"steps": "1"}, "steps: must be of type int"),
        ({"xla": 1}, "xla: must be of type bool"),
        ({"dtype": "float16"}, "dtype: must be one of"),
        ({"learning_rate": 0.0}, "learning_rate: must be positive"),
        ({"model": "inception_v3", "image_size": 74}, "at least 75 for inception_v3"),
        ({"model": "resnet50", "image_size": 31}, "at least 32 for resnet50"),
    ],
)
def test_pydantic_runs_the_same_checks(given: dict[str, Any], reason: str) -> None:
    pydantic = pytest.importorskip("pydantic")
    with pytest.raises(BadInputError, match=reason.replace("?", r"\?")):
        workloads.options(TRAINING).parse(given)
    with pytest.raises(pydantic.ValidationError, match=reason.replace("?", r"\?")):
        pydantic.TypeAdapter(workloads.options(TRAINING)).validate_python(given)


def test_an_int_is_a_float_and_size_zero_is_the_published_one() -> None:
    pydantic = pytest.importorskip("pydantic")
    given = {"learning_rate": 1, "model": "inception_v3", "image_size": 0}
    for options in (
        workloads.options(TRAINING).parse(given),
        pydantic.TypeAdapter(workloads.options(TRAINING)).validate_python(given),
    ):
        assert options.learning_rate == 1.0
        assert options.image_size == 299


def test_an_estimate_grows_with_the_work() -> None:
    options, estimate = workloads.options(TRAINING), workloads.estimate
    small = estimate(TRAINING, options(), 4)
    assert small < estimate(TRAINING, options(steps=200), 4)
    assert small < estimate(TRAINING, options(), 2)
    assert small < estimate(TRAINING, options(data="real"), 4)
