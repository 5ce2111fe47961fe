"""Bad experiments are refused before anything is touched: rule, example, what was given."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.errors import Refused

import workloads
from controller import experiment

GOOD: dict[str, Any] = {
    "name": "good",
    "title": "A good one",
    "workload": "tf_image_classification",
    "factors": {"runtime": ["native", "docker"], "model": ["tiny", "alexnet"]},
    "options": {"batch_size": 8, "image_size": 64},
    "baseline": {"runtime": "native"},
    "repeats": 4,
}


def load(tmp_path: Path, slice_name: str = "", **changes: Any) -> experiment.Experiment:
    path = tmp_path / "good.yml"
    path.write_text(yaml.safe_dump({**GOOD, **changes}))
    return experiment.load(path, slice_name)


def test_a_good_one_is_read(tmp_path: Path) -> None:
    assert load(tmp_path).repeats == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"factors": {"modle": ["alexnet"]}}, ["unknown factor 'modle'", "'model'"]),
        ({"factors": {"runtime": ["dokcer"]}}, ["unknown level 'dokcer'", "'docker'"]),
        ({"options": {"batchsize": 8}}, ["unknown option 'batchsize'", "'batch_size'"]),
        ({"workload": "tf_image_clasification"}, ["unknown workload", "'tf_image_classification'"]),
        ({"factors": {"model": []}}, ["at least one level", "model: [resnet50, alexnet]"]),
        ({"factors": {"model": ["tiny", "tiny"]}}, ["each once"]),
        ({"repeats": "four"}, ["repeats", "repeats: 5", "'four'"]),
        ({"visits": "often"}, ["visits: it is a number from 1, or balanced", "'often'"]),
        ({"visits": True}, ["visits: it is a number", "visits: 3"]),
        ({"repeats": 0}, ["repeats", "greater than or equal to 1", "0"]),
        ({"basline": {}}, ["unknown name 'basline'", "'baseline'"]),
        ({"baseline": {"runtime": "podman"}}, ["baseline.runtime", "runtime: [native]"]),
        ({"exclude": [{"modell": "tiny"}]}, ["unknown factor in exclude 'modell'"]),
        ({"options": {"model": "tiny"}}, ["both a factor and an option"]),
        ({"time_budget": "two hours"}, ["a duration is a number", "15m", "two hours"]),
        ({"disk_budget": "-1G"}, ["a size is a number", "8G"]),
        ({"time_limit": "9" * 400 + "h"}, ["a duration is a number", "15m"]),
        ({"options": {"memory": 1.5}}, ["'memory' must be", "options.memory: 1.5", "[8G]"]),
        ({"options": {"memory": ["8G"]}}, ["'memory' must be"]),
        ({"factors": {"memory": ["8G", "8192M"]}}, ["each once"]),
        ({"factors": {"label": [None, "a"]}}, ["'label' must be", '"no"']),
        ({"baseline": {"network": "brdige"}}, ["unknown level 'brdige'", "'bridge'"]),
        ({"baseline": {"memory": 1.5}}, ["'memory' must be", "baseline.memory"]),
        ({"exclude": [{"runtime": ["dokcer"]}]}, ["unknown level 'dokcer'", "'docker'"]),
        ({"exclude": [{"batch_size": "8"}]}, ["batch_size", "'8'", "exclude"]),
        ({"factors": {"steps": [1, "2"]}}, ["steps", "must be of type int"]),
        ({"backgrounds": {"b": {"memory": 1.5}}}, ["'memory' must be", "b.memory: 1.5"]),
        ({"backgrounds": {"b": {"cpu": "1"}}}, ["unknown name 'cpu'", "'cpus'"]),
        ({"backgrounds": {"../b": {}}}, ["backgrounds", "../b"]),
        ({"name": "x" * 65}, ["name", "at most 64"]),
        ({"title": "x" * 201}, ["title", "at most 200"]),
        ({"title": "two\nlines"}, ["title"]),
        ({"title": 5}, ["title", "title: Native against Docker"]),
        ({"dataset": {"name": "d" * 65, "path": "/d"}}, ["dataset.name", "at most 64"]),
        ({"dataset": {"name": "d"}}, ["has a path, or is to be generated", "neither"]),
        ({"dataset": {"name": "d", "path": "/d", "generate": {}}}, ["or is to be", "both"]),
        ({"dataset": {"name": "d", "pth": "/d"}}, ["'pth'", "'path'"]),
    ],
)
def test_bad_ones_are_refused(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        load(tmp_path, **changes)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("name", ["memory", "workload"])
def test_an_option_with_the_name_of_a_factor_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spin = workloads.workload("spin")
    toy = dataclasses.make_dataclass(
        "Options", [(name, int, 1)], bases=(spin.Options,), frozen=True
    )
    monkeypatch.setattr(spin, "Options", toy)
    with pytest.raises(Refused, match=f"given: spin: an option .* given: {name}"):
        load(tmp_path, workload="spin", factors={"runtime": ["native"]}, options={})
    with pytest.raises(Refused, match=f"given: spin: an option .* given: {name}"):
        experiment.resolve_options("spin", {})


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    load(tmp_path)
    with pytest.raises(Refused, match="did you mean 'good'"):
        experiment.load(tmp_path / "goood.yml")


def test_a_missing_key_shows_an_example(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(yaml.safe_dump({k: v for k, v in GOOD.items() if k != "repeats"}))
    with pytest.raises(Refused, match="'repeats' is missing\nexample: repeats: 5"):
        experiment.load(path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": "eight"}, ["batch_size", "'eight'"]),
        ({"model": "resnet51"}, ["model", "resnet51"]),
        ({"dtype": "float16"}, ["dtype", "float16"]),
        ({"batch_size": 0}, ["batch_size", "0"]),
        ({"batchsize": 8}, ["batchsize", "batch_size"]),
    ],
)
def test_options_are_checked_by_their_workload(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        experiment.resolve_options("tf_image_classification", options)
    for word in words:
        assert word in str(refused.value)


def test_a_slice_replaces_what_it_states(tmp_path: Path) -> None:
    slices: dict[str, dict[str, Any]] = {
        "small": {"factors": {"model": ["tiny", "alexnet"]}, "options": {"steps": 2}}
    }
    slices["small"] |= {"repeats": 1, "disturbed": False}
    small = load(tmp_path, "small", slices=slices)
    assert small.factors == {"runtime": ["native", "docker"], "model": ["tiny", "alexnet"]}
    assert small.options["steps"] == 2
    assert small.options["batch_size"] == 8
    assert (small.repeats, small.demonstration, small.disturbed) == (1, True, False)
    assert "the slice 'small' of it, with model tiny / alexnet, steps 2" in small.description
    with pytest.raises(Refused, match="did you mean 'small'"):
        load(tmp_path, "smal", slices=slices)


def test_a_slice_excludes_beside_what_the_experiment_does(tmp_path: Path) -> None:
    rules = [{"runtime": "docker", "model": "tiny"}, {"runtime": ["docker"], "model": "alexnet"}]
    small = load(tmp_path, "s", exclude=rules[:1], slices={"s": {"exclude": rules[1:]}})
    assert small.excluded == [
        {"runtime": ["docker"], "model": ["tiny"]},
        {"runtime": ["docker"], "model": ["alexnet"]},
    ]
    assert "with fewer repeats, without model alexnet and runtime docker." in small.description
    with pytest.raises(Refused, match="unknown factor in exclude 'modell'"):
        load(tmp_path, "s", slices={"s": {"exclude": [{"modell": "tiny"}]}})


SEVERAL: dict[str, Any] = {
    "workload": "",
    "workloads": {
        "iperf3": {"factors": {"streams": [1, 4]}, "options": {"network": "host"}},
        "tf_image_classification": {"options": {"model": "tiny"}},
    },
    "factors": {"runtime": ["native", "docker"], "network": ["host", "bridge"]},
    "options": {},
}


def test_a_rule_that_names_an_option_of_one_workload_is_for_that_one(tmp_path: Path) -> None:
    rules = [{"streams": 4, "network": "bridge"}, {"runtime": "native", "network": "bridge"}]
    wire, training = experiment.parts(load(tmp_path, **SEVERAL, exclude=rules))
    assert (wire.exclude, training.exclude) == (rules, rules[1:])
    with pytest.raises(Refused, match="unknown factor in exclude 'stream'"):
        load(tmp_path, **SEVERAL, exclude=[{"stream": 4}])


def test_each_of_several_workloads_has_its_own_beside_what_is_common(tmp_path: Path) -> None:
    wire, training = experiment.parts(load(tmp_path, **SEVERAL))
    assert wire.factors == {"runtime": ["native", "docker"], "streams": [1, 4]}
    assert wire.options == {"network": "host"}
    assert (training.workload, training.options) == ("tf_image_classification", {"model": "tiny"})
    assert training.factors == SEVERAL["factors"]
    slices = {
        "small": {"workloads": {"iperf3": {"options": {"streams": 2}}}, "demonstration": False}
    }
    small = load(tmp_path, "small", **SEVERAL, slices=slices)
    assert experiment.parts(small)[0].options == {"network": "host", "streams": 2}
    assert not small.demonstration and "with streams 2" in small.description


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workload": "iperf3"}, ["good has a workload, or several", "given: both"]),
        ({"workloads": {}}, ["good has a workload, or several", "given: neither"]),
        ({"workloads": {"iperf": {}}}, ["unknown workload 'iperf'", "'iperf3'"]),
        ({"workloads": {"iperf3": {"option": {}}}}, ["unknown name 'option'", "'options'"]),
        ({"workloads": {"iperf3": {"options": {"model": "tiny"}}}}, ["unknown option 'model'"]),
        ({"workloads": {"iperf3": {"options": {"label": "a"}}}}, ["labels are those of the whole"]),
        (
            {"stop": {"of": {"network": "bridge"}, "within": 0.03}},
            ["stop is a rule for one workload"],
        ),
        (
            {"slices": {"s": {"workloads": {"spin": {}}}}},
            ["a slice changes workloads", "slices.s.workloads.spin"],
        ),
    ],
)
def test_bad_workloads_among_several_are_refused(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(Refused) as refused:
        load(tmp_path, "s" if "slices" in changes else "", **{**SEVERAL, **changes})
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"rebuilds": 4, "repeats": 3}, "each rebuild of the testbed has at least one"),
        (
            {"rebuilds": 2, "stop": {"of": {"runtime": "docker"}, "within": 0.03}},
            "a run over several rebuilds has no stop",
        ),
    ],
)
def test_rebuilds_that_would_have_nothing_to_measure_are_refused(
    tmp_path: Path, changes: dict[str, Any], rule: str
) -> None:
    with pytest.raises(Refused, match=rule):
        load(tmp_path, **changes)


def test_a_slice_has_no_more_rebuilds_than_repeats(tmp_path: Path) -> None:
    changes = {"rebuilds": 4, "repeats": 8, "slices": {"s": {"repeats": 2}}}
    assert load(tmp_path, **changes).rebuilds == 4
    assert load(tmp_path, "s", **changes).rebuilds == 2


def test_identity_follows_what_is_run_and_not_its_prose(tmp_path: Path) -> None:
    first = load(tmp_path)
    assert load(tmp_path, title="Other words").identity == first.identity
    assert load(tmp_path, seed=2).identity != first.identity


@pytest.mark.parametrize("path", sorted(Path("experiments").glob("*.yml")), ids=lambda p: p.stem)
def test_shipped_experiments_are_good_and_so_are_their_slices(path: Path) -> None:
    whole = experiment.load(path)
    for name in whole.slices:
        experiment.load(path, name)
