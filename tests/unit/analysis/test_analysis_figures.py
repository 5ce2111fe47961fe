"""The data of the page's figures: what is in it, and that a cell can be run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic import DOCKER, NATIVE, Effect, Synthetic, cells

from analysis import figures, load, tables
from controller import plan
from controller.experiment import Experiment

MODELS = ("alexnet", "resnet50")


def drawn(folder: Path, **more: Any) -> dict[str, Any]:
    """The document of a run of two platforms, an A/A control and two models."""
    own = cells(NATIVE, DOCKER, models=MODELS) + cells(NATIVE, models=MODELS, labels=("control",))
    made = Synthetic(own, {"docker": Effect(slower=1.1)},
                     baseline={"runtime": "native", "label": None}, **more)  # fmt: skip
    return figures.document(tables.build(load.load(made.write(folder))))


def test_every_trial_is_a_point_of_its_cell(tmp_path: Path) -> None:
    found = drawn(tmp_path / "run", failed={3: "gone"})
    trials = found["trials"]
    assert len(trials["name"]) == len(set(trials["name"])) == 36
    for name, cell in zip(trials["name"], trials["cell"], strict=True):
        assert name.startswith(found["cells"][cell]["id"])
    assert trials["lost"] == {3: ["failed", "exit", "gone"]}
    assert all(values[3] is None and None not in values[4:] for values in trials["values"])
    record = json.loads((tmp_path / "run/trials" / trials["name"][0] / "record.json").read_text())
    place = [metric["name"] for metric in found["metrics"]].index("throughput")
    exact = record["metrics"]["throughput"]["value"]
    assert trials["values"][place][0] == pytest.approx(exact, rel=1e-4)


def test_the_changes_are_those_of_the_tables(tmp_path: Path) -> None:
    found = drawn(tmp_path / "run")
    built = tables.build(load.load(tmp_path / "run"))
    lead = [row for row in found["changes"] if row["metric"] == 0]
    exact = built.comparisons[built.comparisons["metric"] == "throughput"]
    own = {row["cell"]: row for row in lead if row["cell"] is not None}
    for row in tables.records(exact):
        place = [cell["id"] for cell in found["cells"]].index(row["cell"])
        low, ratio, high = own[place]["change"]
        assert [low, ratio, high] == pytest.approx(
            [(row[part] - 1) * 100 for part in ("ratio_low", "ratio", "ratio_high")], abs=1e-3
        )
    assert sum(row["cell"] is None for row in lead) == 2, "docker and the control, over all cases"


def test_what_varies_in_step_is_one_filter(tmp_path: Path) -> None:
    """Docker has its own network: a filter for each would be the same one twice."""
    found = drawn(tmp_path / "run")
    assert {f["name"]: f["levels"] for f in found["factors"]} == {
        "runtime": ["native", "docker"],
        "model": list(MODELS),
        "label": ["none", "control"],
    }


def test_steps_are_thinned_for_the_eye_and_keep_their_range(tmp_path: Path) -> None:
    found = drawn(tmp_path / "run", steps=1500, repeats=2)
    assert len(found["steps"]) == len(found["usage"]) == 6
    for row in found["steps"]:
        assert 50 < len(row["x"]) <= figures.MOST
        assert row["warm"] == 10 and row["first"] > row["high"][0]
        trios = zip(row["low"], row["middle"], row["high"], strict=True)
        assert all(low <= middle <= high for low, middle, high in trios)


def test_a_document_can_stand_in_a_page(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)//\u2028&amp;<!--"
    made = Synthetic(cells(NATIVE, DOCKER, models=(evil, "alexnet")), failed={0: evil})
    found = figures.document(tables.build(load.load(made.write(tmp_path / "run"))))
    text = figures.embedded(found)
    assert text.isascii() and not set("<>&") & set(text)
    again = json.loads(text)
    assert evil.replace("\u2028", r"\u2028") in again["cases"]
    assert again["trials"]["lost"]["0"][2] == evil.replace("\u2028", r"\u2028")


@pytest.mark.parametrize("name", ["runtime", "label", "model"])
def test_the_experiment_of_one_cell_is_that_cell(tmp_path: Path, name: str) -> None:
    """What the page prints, planned as a user would: the cell has the same identity."""
    levels = {
        "runtime": ["native", "docker"],
        "label": ["a", "b"],
        "model": ["alexnet", "resnet50"],
    }
    asked = Experiment.model_validate({
        **{"name": "whole", "title": "Whole", "workload": "tf_image_classification"},
        **{"factors": {"batch_size": [8, 16], name: levels[name]}, "repeats": 2, "seed": 7},
        **{"baseline": {name: levels[name][0]}, "control": False, "time_budget": "1000d"},
    })  # fmt: skip
    hosts = [plan.Host("node1", "bare_metal", ("native", "docker"))]
    planned = {t.cell: t.levels for slot in plan.make(asked, hosts).slots for t in slot.trials}
    kept = figures.again(asked.model_dump(mode="json"), "lab", list(planned.values()))
    assert kept["inventory"] == "inventories/lab" and len(planned) == 4
    for cell, factors in zip(planned, kept["factors"], strict=True):
        alone = {key: [level] for key, level in factors.items()}
        one = Experiment.model_validate({**kept["experiment"], "factors": alone})
        assert [t.cell for slot in plan.make(one, hosts).slots for t in slot.trials] == [cell]


def test_so_it_is_where_the_experiment_has_several_workloads() -> None:
    asked = Experiment.model_validate({
        **{"name": "whole", "title": "Whole", "factors": {"network": ["host", "vxlan"]}},
        "workloads": {
            "iperf3": {"factors": {"streams": [1, 4]}, "options": {"duration": 3}},
            "request_response": {"options": {"network": "host"}},
        },
        **{"options": {"warmup": 1, "duration": 5}, "baseline": {"network": "host"}},
        **{"repeats": 2, "control": False, "time_budget": "1000d"},
    })  # fmt: skip
    hosts = [plan.Host(f"node{n}", "bare_metal", ("native", "docker")) for n in (1, 2)]
    planned = {t.cell: t.levels for slot in plan.make(asked, hosts).slots for t in slot.trials}
    kept = figures.again(asked.model_dump(mode="json"), "lab", list(planned.values()))
    assert len(planned) == 5
    for n, cell in enumerate(planned):
        workload, factors = kept["workload"][n], kept["factors"][n]
        own = {"workload": workload, "options": kept["options"][workload]}
        alone = {key: [level] for key, level in factors.items()}
        one = Experiment.model_validate({**kept["experiment"], **own, "factors": alone})
        assert next(t.cell for slot in plan.make(one, hosts).slots for t in slot.trials) == cell
