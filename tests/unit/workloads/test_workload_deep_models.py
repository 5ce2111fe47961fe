"""Every model learns what it is asked; those as published have the parameters of their papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from peers import Process

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")

import workloads  # noqa: E402
from workloads import _idx, deep_models  # noqa: E402
from workloads._options import BadInputError  # noqa: E402
from workloads._output import Context, StepLog  # noqa: E402
from workloads.deep_models import train  # noqa: E402
from workloads.deep_models.options import PUBLISHED, Model, Options  # noqa: E402

# What differs from four epochs of 640 examples, and the share of right answers at least. The ball
# of catch moves at random: an answer is right half of the time where nothing was learnt.
LEARNT: dict[str, tuple[dict[str, Any], float]] = {
    **{name: ({}, 0.9) for name in get_args(Model)},
    "ptb_lstm": ({"epochs": 8}, 0.7),
    "memnet": ({"epochs": 6}, 0.9),
    "autoenc": ({"epochs": 10}, 0.85),
    "seq2seq": ({"epochs": 12}, 0.8),
    "deepq": ({"examples": 6400}, 0.75),
}


def trained(folder: Path, options: Options) -> tuple[train.Loop, float]:
    """The loop after all epochs, and the share of right answers."""
    keras.utils.set_random_seed(options.seed)
    with StepLog(folder / "steps.jsonl") as steps:
        context = Context("deep_models", folder, steps, metrics=deep_models.METRICS)
        task = train.build(options, context)
        loop = train.Loop(options, context, task, train.compiled(options, task))
        loop.run()
        return loop, task.answers(train.compiled_later(task.right), options.batch_size)


@pytest.mark.parametrize("name", get_args(Model))
def test_each_model_learns(name: Any, tmp_path: Path) -> None:
    changes, least = LEARNT[name]
    loop, right = trained(tmp_path, Options(model=name, size="small", **({"epochs": 4} | changes)))
    assert right >= least
    if name != "deepq":  # what is to be learnt there grows with what it knows
        assert sum(loop.losses) / len(loop.losses) < 0.7 * loop.first


@pytest.mark.parametrize(
    ("name", "parameters", "layers"),
    [
        ("fcn5", 784 * 2048 + 2048 * 4096 + 4096 * 1024 + 1024 * 10 + 2048 + 4096 + 1024 + 10, 5),
        ("cifar_alexnet", 85_098, 0),
        ("cifar_resnet50", 23_508_032 + 2048 * 10 + 10 + 53_120, 0),
        ("residual", 21_797_672 + 17_024, 0),
        ("snn", 0, 10),
        ("lnn", 0, 28),
    ],
)
def test_the_published_sizes_are_those_of_the_papers(
    name: Any, parameters: int, layers: int
) -> None:
    task = train.build(Options(model=name))
    assert not parameters or task.parameters == parameters
    assert not layers or len(task.networks[0].layers) == layers
    kinds = [type(layer).__name__ for layer in task.networks[0].layers]
    counts = [kinds.count(kind) for kind in ("Conv2D", "Dense", "Dropout")]
    assert counts == {"snn": [3, 2, 2], "lnn": [8, 4, 6]}.get(name, counts)


def test_a_trial_of_real_images_says_what_it_measured(tmp_path: Path) -> None:
    made = Process("make_mnist", tmp_path / "made", {"train": 200, "test": 160}).well()
    asked = {"data": "real", "examples": 70, "batch_size": 40, "epochs": 3}
    data = str(made.out / "dataset")
    process = Process("deep_models", tmp_path / "run", asked, data_dir=data, cpus=1).well()
    result, rows = process.result(), process.steps()
    found = {name: scalar["value"] for name, scalar in result["scalars"].items()}
    assert set(found) == {metric.name for metric in deep_models.METRICS}
    assert [row["items"] for row in rows] == 2 * [40, 30]
    assert [row["items"] for row in process.steps("warmup")] == [40, 30]
    assert found["first_epoch"] + 2 * found["epoch_time"] == pytest.approx(
        found["run_time"], rel=0.05
    )
    assert 0 < found["accuracy"] <= 1 and found["busy"] > 0
    marks = [result["marks"][name] for name in ("built", "first_step_end", "warmup_end", "end")]
    assert marks == sorted(marks)


def test_inference_answers_and_does_not_learn(tmp_path: Path) -> None:
    options = Options(model="snn", size="small", task="inference", examples=70)
    keras.utils.set_random_seed(1)
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context("deep_models", tmp_path, steps, metrics=deep_models.METRICS)
        task = train.build(options)
        before = [v.numpy() for v in task.variables]
        train.Loop(options, context, task, train.compiled(options, task)).run()
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [row["items"] for row in rows] == 2 * [32, 32, 6]
    assert not any("loss" in row for row in rows)
    assert all((v.numpy() == b).all() for v, b in zip(task.variables, before, strict=True))


def test_more_examples_than_the_data_has_are_refused(tmp_path: Path) -> None:
    made = Process("make_mnist", tmp_path, {"train": 20, "test": 20}).well()
    task = train.build(Options(model="fcn5", data="real", examples=1000), None)
    from workloads.deep_models.models.fcn5 import Mnist  # noqa: PLC0415

    real = Mnist(task.networks, made.out / "dataset")
    real.prepare(1, 1000, 10)
    with pytest.raises(BadInputError, match=r"at most those of the data .*examples: 20"):
        next(real.epoch(0, 10))
    assert _idx.load(made.out / "dataset", "test").labels.size == 20


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"model": "fcn6"}, "did you mean fcn5"),
        ({"epochs": 1}, "at least 2"),
        ({"model": "vgg", "data": "real"}, "real data is for fcn5"),
        ({"batch_size": 100, "examples": 99}, "at least a batch"),
    ],
)
def test_what_cannot_be_trained_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        workloads.options("deep_models").parse(given)
    assert set(PUBLISHED) == set(get_args(Model))
