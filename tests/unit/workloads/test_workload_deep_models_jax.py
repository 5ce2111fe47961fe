"""The networks learn under JAX what they learn under TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPO
from workloads import deep_models
from workloads._options import BadInputError
from workloads.deep_models.options import OF_JAX, PUBLISHED, Options

SHORT = {"epochs": 3, "examples": 320}
# What differs from that, and the share of right answers at least. The others take long to compile;
# what they have beside these two is the state of a normalisation, below.
LEARNT: dict[str, tuple[dict[str, Any], float]] = {
    "fcn5": ({}, 0.9),
    "ptb_lstm": ({"examples": 640, "epochs": 8}, 0.7),
}
# In a process of their own, since Keras has one backend; in one, since JAX takes seconds to import.
TRAIN = """
import sys
from workloads.__main__ import main
for folder in sys.argv[1:]:
    main(["deep_models", "--config", f"{folder}/config.json", "--out", f"{folder}/out"])

import keras
from workloads.deep_models import data, task, with_jax
from workloads.deep_models.options import Options

layers = [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.BatchNormalization()]
network = keras.Sequential([*layers, keras.layers.Dense(2)])
made = task.Images([network], data.images((4, 4, 1), 2))
made.prepare(1, 64, 64)
model = with_jax.Model(made)
step = with_jax.compiled(Options(learning_rate=0.05), model)
before = [value.copy() for value in model.rest]
losses = [float(step(*batch)) for number in range(8) for batch in made.epoch(number, 32)]
assert losses[-1] < 0.5 * losses[0], losses
moved = [bool((old != new).any()) for old, new in zip(before, model.rest)]
assert sum(moved) >= 2, "the means and variances of the normalisation"
assert made.answers(model.right, 32) > 0.9
"""


def test_networks_learn(tmp_path: Path) -> None:
    for name, (changes, _) in LEARNT.items():
        (tmp_path / name / "out").mkdir(parents=True)
        options = {"model": name, "framework": "jax", "size": "small", **SHORT, **changes}
        config = json.dumps({"options": options, "cpus": 1})
        (tmp_path / name / "config.json").write_text(config)
    folders = [str(tmp_path / name) for name in LEARNT]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    subprocess.run([sys.executable, "-c", TRAIN, *folders], check=True, env=environment)
    for name, (changes, least) in LEARNT.items():
        result = json.loads((tmp_path / name / "out/result.json").read_text())
        found = {scalar: value["value"] for scalar, value in result["scalars"].items()}
        assert set(found) == {metric.name for metric in deep_models.METRICS}
        assert found["accuracy"] >= least
        assert found["loss_last"] < 0.7 * found["loss_first"]
        steps = (tmp_path / name / "out/steps.jsonl").read_text().splitlines()
        measured = [step for step in map(json.loads, steps) if step["phase"] == "measured"]
        asked = {**SHORT, **changes}
        assert len(measured) == asked["examples"] // 32 * (asked["epochs"] - 1)
        assert result["environment"]["threads"] == {"intra_op": 1}


def test_its_sizes_are_those_of_the_studies() -> None:
    assert set(OF_JAX) >= set(LEARNT)
    for name in OF_JAX:
        options, known = Options.parse({"model": name, "framework": "jax"}), PUBLISHED[name]
        assert (options.batch_size, options.examples) == (known.batch_size, known.examples)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"model": "lnn"}, "model: with jax must be one of fcn5, "),
        ({"data": "real"}, "data: with jax must be made"),
        ({"device": "gpu"}, "device: with jax must be cpu"),
        ({"intra_op_threads": 2}, "intra_op_threads: with jax must be 0"),
    ],
)
def test_what_only_tensorflow_has_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        Options.parse({"framework": "jax", **given})
