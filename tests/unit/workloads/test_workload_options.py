"""The registry and the options, as the controller uses them: without TensorFlow."""

import subprocess
import sys
from dataclasses import fields, make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import workloads
from workloads._declare import (
    CLIENT_AND_SERVER,
    ONE,
    WORKERS_AND_SERVERS,
    DeclarationError,
    Metric,
    Port,
    Role,
    Topology,
)
from workloads._options import BadInputError
from workloads._output import Context, StepLog

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
    assert found.METRICS and found.FAMILY and found.MEMORY > 0
    assert found.WRITABLE in (True, False)
    assert (found.ITEMS is None) == name.startswith("make_")
    assert any(m.headline for m in found.METRICS) == (found.ITEMS is not None)


TOY = {
    **{"Options": workloads.options("spin"), "COMMON": ("steps",), "ITEMS": "hashes"},
    **{"METRICS": (Metric("rate", "Rate", "hashes/s", "higher"),), "TOPOLOGY": ONE, "PORTS": ()},
    **{"FAMILY": "tools", "WRITABLE": False, "MEMORY": 1, "estimate": None, "run": None},
}
PEERS = Port("peers", "tcp", ("worker",))
SERVER = Port("test", "udp", ("server",))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"TOPOLOGY": CLIENT_AND_SERVER, "PORTS": (SERVER,)}, ""),
        ({"METRICS": None}, "toy: METRICS must be declared"),
        ({"METRICS": 2 * TOY["METRICS"]}, "declared twice: rate"),
        ({"COMMON": ("stepz",)}, "COMMON names no options: stepz"),
        ({"PORTS": (PEERS,)}, "one alone needs none"),
        ({"TOPOLOGY": WORKERS_AND_SERVERS}, "members that are several need PORTS"),
        ({"TOPOLOGY": CLIENT_AND_SERVER, "PORTS": (PEERS,)}, "its roles must be of"),
        ({"METRICS": (Metric("work", "Work", "1"),)}, "both a metric and an option: work"),
        ({"Options": make_dataclass("Options", ["memory"])}, "another name than .*: memory"),
        ({"METRICS": (Metric("x", "X", "1", role="server"),)}, "its role must be of .'worker'."),
        ({"TOPOLOGY": CLIENT_AND_SERVER, "PORTS": (SERVER, SERVER)}, "a name of its own"),
        ({"TOPOLOGY": WORKERS_AND_SERVERS, "PORTS": (PEERS, SERVER)}, "have one port each"),
    ],
)  # fmt: skip
def test_an_incomplete_or_contradictory_declaration_is_refused(
    change: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {key: value for key, value in (TOY | change).items() if value is not None or
             key not in change}  # fmt: skip
    monkeypatch.setitem(sys.modules, "workloads.toy", cast(Any, SimpleNamespace(**parts)))
    monkeypatch.setattr(workloads, "NAMES", ("toy",))
    if not reason:
        assert workloads.workload("toy").FAMILY == "tools"
        return
    with pytest.raises(DeclarationError, match=reason):
        workloads.workload("toy")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": "Run time"}, "small letters"),
        ({"unit": ""}, "a unit"),
        ({"better": "more"}, "better must be one of"),
        ({"combine": "average"}, "combine one of"),
        ({"better": "", "headline": True}, "a headline needs a better direction"),
    ],
)
def test_a_metric_that_cannot_be_shown_is_refused(given: dict[str, Any], reason: str) -> None:
    right = {"name": "run_time", "label": "Run time", "unit": "s", "better": "lower"}
    with pytest.raises(DeclarationError, match=reason):
        Metric(**(right | given))


def test_a_topology_has_as_many_roles_as_can_be_counted() -> None:
    with pytest.raises(DeclarationError, match="one role or two; given: 3"):
        Topology("three", (Role("a"), Role("b"), Role("c")))


def test_a_scalar_that_is_not_declared_is_refused(tmp_path: Path) -> None:
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context("toy", tmp_path, steps, metrics=(Metric("rate", "Rate", "hashes/s"),))
        context.scalar("rate", 2.0)
        assert context.scalars == {"rate": {"value": 2.0, "unit": "hashes/s"}}
        with pytest.raises(DeclarationError, match="toy does not declare the metric speed"):
            context.scalar("speed", 2.0)


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
        ({"model": "alexnet", "width": 0.0}, "width: must be above 0 and at most 1"),
        ({"model": "alexnet", "width": 1.5}, "width: must be above 0 and at most 1"),
        ({"model": "resnet50", "width": 0.5}, "width: must be 1 for resnet50"),
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
