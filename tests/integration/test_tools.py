"""Each tool runs for real under each runtime, and its files are where they were asked to be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from strata import storage
from strata.cell import Resources, Scenario
from strata.trial import slot as trial

import workloads
from tests.conftest import STATE, lone, playbook

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]
NETWORK = {"native": "host", "docker": "bridge"}
MIB = 2**20
SMALL: dict[str, dict[str, Any]] = {
    "fio": {"file_size": 4 * MIB, "warmup": 0, "duration": 1, "queue_depth": 4},
    "dd": {"size": MIB, "rewrites": 2},
    "ioping": {"test": "direct", "duration": 1},
    "hpl": {"order": 500},
    "memory_bandwidth": {"array_size": 4 * MIB, "runs": 2},
}


@pytest.fixture(scope="module")
def ran(deployed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest run of sysbench, whose image has all of the tools."""
    results = tmp_path_factory.mktemp("results")
    given = ["-estrata_experiment=wsu2018_sysbench", "-estrata_slice=smoke"]
    playbook("site.yml", *given, f"-estrata_results={results}")
    (run,) = results.iterdir()
    return run


@pytest.fixture
def image(ran: Path) -> dict[str, str]:
    (held,) = json.loads((ran / "run.json").read_text())["images"]
    folder = STATE / "images" / f"tools-{held['digest'][:12]}"
    return {**held, "rootfs": str(folder / "rootfs")}


def measured(
    image: dict[str, str], state: Path, workload: str, runtime: str, **options: Any
) -> dict[str, Any]:
    """The record of one trial."""
    chosen = workloads.options(workload).parse(options)
    levels = {
        **{"substrate": "vm", "runtime": runtime, "network": NETWORK[runtime], "label": ""},
        **{"workload": workload, **vars(Resources()), **vars(Scenario()), **vars(chosen)},
    }
    asked = {
        **{"trial": f"{workload}-{runtime}", "cell": "abc", "repetition": 1, "role": "measured"},
        **{"family": "tools", "levels": levels, "members": lone("localhost")},
        "scratch": workloads.workload(workload).WRITABLE,
    }
    slot = {"run": "t", "slot": "s0001", "hosts": ["localhost"], "trials": [asked]}
    order = trial.Order(slot, "localhost", {"tools": image}, {}, {}, 120, state, judged=False)
    (outcome,) = trial.run(order, lambda: False)
    assert outcome["record"]["status"] == "ok", outcome["record"]["reason"]
    return dict(outcome["record"])


def test_all_of_the_tables_is_measured_with_sysbench(ran: Path) -> None:
    records = [json.loads(path.read_text()) for path in ran.glob("trials/*/record.json")]
    assert {record["status"] for record in records} == {"ok"}, records
    of_test: dict[str, set[str]] = {}
    for record in records:
        of_test.setdefault(record["levels"]["test"], set()).update(record["metrics"])
    assert set(of_test) == {"cpu", "memory", "threads", "fileio"}
    always = {"rate", "total_time", "event_time", "latency_mean", "latency_max"}
    always |= {f"thread_{what}_{of}" for what in ("events", "time") for of in ("mean", "std")}
    assert all(always <= names for names in of_test.values())
    assert "bandwidth" in of_test["memory"] and {"reads", "writes"} <= of_test["fileio"]
    places = {
        (record["levels"]["runtime"], record["levels"]["storage"])
        for record in records
        if record["levels"]["test"] == "fileio"
    }
    assert places == {("native", "disk"), *(("docker", n) for n in ("disk", "volume", "layer"))}
    assert (ran / "report/index.html").is_file()


@pytest.mark.parametrize("runtime", list(NETWORK))
def test_each_tool_runs(image: dict[str, str], tmp_path: Path, runtime: str) -> None:
    for name, options in SMALL.items():
        record = measured(image, tmp_path / "state", name, runtime, **options)
        found = workloads.workload(name)
        headlines = {metric.name for metric in found.METRICS if metric.headline}
        values = {key: record["metrics"][key]["value"] for key in headlines}
        assert all(value > 0 for value in values.values()), (name, values)
        assert ("scratch" in record["metrics"]) == found.WRITABLE
        span = record["clock"]["finished"] - record["clock"]["launched"]
        assert sum(record["phases"].values()) == pytest.approx(span, rel=1e-6)


@pytest.fixture
def volumes() -> Iterator[None]:
    """No volume is left over."""
    engine = docker.from_env()
    before = {volume.id for volume in engine.volumes.list()}
    yield
    assert {volume.id for volume in engine.volumes.list()} == before
    engine.close()


@pytest.mark.parametrize("runtime", list(NETWORK))
def test_files_are_where_they_were_asked_to_be(
    image: dict[str, str], tmp_path: Path, volumes: None, runtime: str
) -> None:
    found = {}
    for place in storage.of(runtime):
        record = measured(
            image, tmp_path / "state", "dd", runtime, size=65536, rewrites=1, storage=place
        )
        found[place] = record["workload"]["environment"]["file_system"]
        # What lies elsewhere is not on the disk that is looked at.
        assert ("scratch" in record["metrics"]) == (place == "disk")
    assert found.pop("tmpfs") == "tmpfs"
    layer = found.pop("layer", "overlay")
    assert layer == "overlay" and len(set(found.values())) == 1, found
