"""The equality gate: every difference between two arms is caught, and none on a clean pair."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
from strata.fields import UNOBSERVED
from synthetic import DOCKER, NATIVE, Synthetic

from analysis import differences, equality, load, matching, report, tables
from analysis.errors import UnequalDigests
from schema import documents as schema

Document = dict[str, Any]
ENVIRONMENT = {
    **{"python": "3.11.2", "tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6"},
    **{"glibc": "2.36", "blas": "scipy-openblas 0.3.31", "onednn": True, "onednn_isa": "default"},
    **{"threads": {"intra_op": 4, "inter_op": 4, "data": 2}, "cpus": "0-3", "quota": 4.0},
    **{"isa": ["avx2", "avx512f"], "devices": ["/physical_device:CPU:0"]},
}
HOST = synthetic.HOST | {"thp": "madvise", "cpu.flags": ["avx2"], "gpu.0.driver": "550.1"}


class Copies:
    """A run in memory, of which each test changes the records of one arm."""

    def __init__(self, folder: Path) -> None:
        made = Synthetic(synthetic.cells(NATIVE, DOCKER), host=HOST)
        self.loaded = load.load(made.write(folder))
        self.documents = [r.model_dump(by_alias=True) for r in schema.read_records(folder, "run")]
        for document in self.documents:
            document["workload"] = {"environment": ENVIRONMENT}

    def confounds(self, change: Callable[[Document], Any], arm: str = "docker") -> pd.DataFrame:
        documents = copy.deepcopy(self.documents)
        for document in documents:
            if document["levels"]["runtime"] == arm:
                change(document)
        records = [schema.validate_record(document) for document in documents]
        loaded = load.of_records(self.loaded.folder, self.loaded.run, self.loaded.plan, records)
        loaded.hosts.update(self.loaded.hosts)
        # Another host that has all that the first one has, but for its CPU.
        loaded.hosts["node2"] = {**HOST, "cpu.model": "Another CPU"}
        trials = matching.assign(loaded)
        return equality.confounds(loaded, trials, list(loaded.metrics))


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return Copies(tmp_path_factory.mktemp("equality") / "run")


def reported(**values: Any) -> Callable[[Document], Any]:
    """The program reports other values."""
    return lambda document: document["workload"].update(environment=ENVIRONMENT | values)


def drifted(key: str, now: Any) -> Callable[[Document], Any]:
    """Something has changed on the host."""
    item = {"key": key, "reference": HOST.get(key), "now": now}
    return lambda document: document["drift"].append(item)


def measured(name: str, value: float) -> Callable[[Document], Any]:
    return lambda document: document["metrics"][name].update(value=value)


def ended(cause: str) -> Callable[[Document], Any]:
    """Half of the trials do not end well."""

    def change(document: Document) -> None:
        if document["repetition"] % 2:
            reason = {"cause": cause, "message": "it was ended"}
            document.update(status="failed", reason=reason, metrics={}, phases={})

    return change


THREADS = ENVIRONMENT["threads"]
# As `trial/record` has it.
THROTTLED = {"name": "throttled", "detail": "a CPU limit held it back in 12 periods"}
MISMATCHES: dict[str, tuple[Callable[[Document], Any], str]] = {
    "TensorFlow": (reported(tensorflow="2.20.0"), "TensorFlow"),
    "Keras": (reported(keras="3.14.0"), "Keras"),
    "NumPy": (reported(numpy="2.0.0"), "NumPy"),
    "Python": (reported(python="3.12.1"), "Python"),
    "glibc": (reported(glibc="2.41"), "glibc"),
    "BLAS": (reported(blas="mkl"), "BLAS"),
    "no oneDNN": (reported(onednn=False), "oneDNN"),
    "ISA of oneDNN": (reported(onednn_isa="AVX2"), "highest ISA of oneDNN"),
    "CPU flags as the program sees them": (reported(isa=["avx2"]), "ISA as the program sees it"),
    "threads": (reported(threads={**THREADS, "intra_op": 2}), "threads: intra op"),
    "threads of the input": (reported(threads={**THREADS, "data": 1}), "threads: data"),
    "CPU set": (reported(cpus="0-1"), "CPUs of the program"),
    "quota": (reported(quota=3.6), "CPU quota of the program"),
    "a quota that the program cannot see": (
        lambda d: d["flags"].append(THROTTLED),
        "held back by a CPU limit that nobody stated",
    ),
    "devices": (reported(devices=["/physical_device:GPU:0"]), "devices"),
    "a report that is missing": (lambda d: d.update(workload={}), "TensorFlow"),
    "something new": (reported(allocator="jemalloc"), "allocator"),
    "governor": (drifted("cpu.governor", "powersave"), "frequency governor"),
    "kernel": (drifted("kernel.release", "6.8.0"), "kernel"),
    "huge pages": (drifted("thp", "never"), "transparent huge pages"),
    "CPU flags": (drifted("cpu.flags", []), "CPU flags"),
    "driver": (drifted("gpu.0.driver", "560.1"), "driver of GPU 0"),
    "parameters": (measured("parameters", 26e6), "parameters"),
    "FLOP per image": (measured("flop_per_image", 4e9), "flop per image"),
    "first loss": (measured("loss_first", 2.3), "loss first"),
    "last loss": (measured("loss_last", 4.0), "loss last"),
    "time-outs": (ended("timeout"), "failed or void trials"),
    "failures": (ended("memory"), "failed or void trials"),
    "a metric": (lambda d: d["metrics"].pop("throughput"), "Throughput"),
    "a unit": (lambda d: d["metrics"]["throughput"].update(unit="images/ms"), "Throughput"),
    "no dataset": (lambda d: d.update(dataset=None), "dataset"),
}


@pytest.mark.parametrize("name", MISMATCHES)
@pytest.mark.parametrize("arm", ["docker", "native"])
def test_what_is_no_factor_and_differs_is_named(copies: Copies, name: str, arm: str) -> None:
    change, what = MISMATCHES[name]
    assert what in set(copies.confounds(change, arm)["what"])


def test_a_clean_pair_has_no_confounds(copies: Copies) -> None:
    assert copies.confounds(lambda _: None).empty
    rounding = copies.confounds(measured("loss_last", 6.5000001))
    assert rounding.empty, "rounding in another order"
    allowed = copies.confounds(drifted("python", "3.12.1"))
    assert allowed.empty, "the Python of Strata's own modules"


def test_one_pair_of_six_that_differs_is_counted_as_one(copies: Copies) -> None:
    def once(document: Document) -> None:
        if document["repetition"] == 2:
            reported(tensorflow="2.20.0")(document)

    (row,) = tables.records(copies.confounds(once))
    assert (row["ours"], row["baseline"], row["pairs"]) == ("2.20.0", "2.21.0", "in 1 of 6 pairs")
    assert equality.told(row) == "docker/bridge: TensorFlow 2.20.0 against 2.21.0 (in 1 of 6 pairs)"


@pytest.mark.parametrize("level", ["batch_size", "cpus", "memory"])
def test_a_trial_with_other_levels_than_planned_is_set_aside(copies: Copies, level: str) -> None:
    """Precision, batch and seed are levels, too: one that differs is of another cell or plan."""
    documents = copy.deepcopy(copies.documents)
    documents[0]["levels"][level] = "1"
    records = [schema.validate_record(document) for document in documents]
    loaded = load.of_records(Path("run"), copies.loaded.run, copies.loaded.plan, records)
    (said,) = loaded.set_aside
    assert said == f"{documents[0]['trial']}, since the plan has other levels for it"
    assert documents[0]["trial"] not in set(loaded.trials["trial"])


def test_other_hosts_are_named_with_what_differs_between_them(tmp_path: Path) -> None:
    """As of a comparison of substrates, whose arms cannot be on one host."""
    vm = {**NATIVE, "substrate": "vm"}
    made = Synthetic(synthetic.cells(NATIVE, vm), baseline={"substrate": "bare_metal"}, host=HOST)
    folder = made.write(tmp_path / "run")
    plan = schema.read_plan(folder)
    records = schema.read_records(folder, "run")
    for slot in plan.slots:
        slot.hosts = ["node2"] if slot.trials[0].levels["substrate"] == "vm" else ["node1"]
    for record in records:
        record.hosts = ["node2"] if record.levels["substrate"] == "vm" else ["node1"]
    loaded = load.of_records(folder, schema.read_run(folder), plan, records)
    other = {**HOST, "cpu.model": "Another CPU", "virtualisation": "kvm"}
    loaded.hosts.update(node1=HOST | {"virtualisation": "none"}, node2=other)
    found = equality.confounds(loaded, matching.assign(loaded), [])
    assert list(found["what"]) == ["CPU"], "that it is virtual is what is compared"


def test_what_was_not_seen_of_hosts_is_alike_on_one_of_them_alone(tmp_path: Path) -> None:
    vm = {**NATIVE, "substrate": "vm"}
    made = Synthetic(synthetic.cells(NATIVE, vm), baseline={"substrate": "bare_metal"}, host=HOST)
    folder = made.write(tmp_path / "run")
    plan, records = schema.read_plan(folder), schema.read_records(folder, "run")
    unseen = {**HOST, "nic": UNOBSERVED}
    for place, what in (("node1", []), ("node2", ["network cards"])):
        for slot in plan.slots:
            slot.hosts = [place if slot.trials[0].levels["substrate"] == "vm" else "node1"]
        for record in records:
            record.hosts = [place if record.levels["substrate"] == "vm" else "node1"]
        loaded = load.of_records(folder, schema.read_run(folder), plan, records)
        loaded.hosts.update(node1=unseen, node2=unseen)
        found = equality.confounds(loaded, matching.assign(loaded), [])
        assert list(found["what"]) == what
    rows = differences.differences(loaded, loaded)
    (row,) = rows[rows["key"] == "nic"].to_dict("records")
    assert (row["left"], row["right"], row["kind"]) == (UNOBSERVED, UNOBSERVED, "confound")


@pytest.mark.parametrize("part", ["image", "dataset"])
def test_an_empty_digest_is_not_taken_for_an_equal_one(tmp_path: Path, part: str) -> None:
    folder = Synthetic(synthetic.cells(NATIVE, DOCKER)).write(tmp_path / "run")
    records = schema.read_records(folder, "run")
    getattr(records[0], part).digest = ""
    loaded = load.of_records(folder, schema.read_run(folder), schema.read_plan(folder), records)
    if part == "image":
        assert "does not say which image" in loaded.set_aside[0]
    else:
        with pytest.raises(UnequalDigests, match="unequal data sets"):
            tables.build(loaded, judge_steps=False)


def test_confounds_stand_where_the_answer_does(tmp_path: Path) -> None:
    folder = Synthetic(synthetic.cells(NATIVE, DOCKER)).write(tmp_path / "run")
    for path in folder.glob("trials/*/record.json"):
        record = schema.read_record(path).model_dump(by_alias=True)
        build = "2.20.0" if record["levels"]["runtime"] == "docker" else "2.21.0"
        synthetic.dump(path, record | {"workload": {"environment": {"tensorflow": build}}})
    told = "\n".join(report.make(folder))
    html = (folder / "report" / "index.html").read_text()
    said = "docker/bridge: TensorFlow 2.20.0 against 2.21.0 (in 6 of 6 pairs)"
    assert f"Confounded: {said}." in told and said in html
    assert "confounded by TensorFlow" in told and "confounded by TensorFlow" in html
    assert "nfounded)" in told, "beside each verdict"


@pytest.mark.parametrize(("python", "named"), [("3.11.2", []), ("3.12.1", ["Python"])])
def test_what_a_framework_brings_is_no_confound_of_it(
    tmp_path: Path, python: str, named: list[str]
) -> None:
    """And its arms have an image each."""
    cells = [c | {"framework": f} for f in ("tensorflow", "jax") for c in synthetic.cells(NATIVE)]
    made = Synthetic(cells, baseline={"framework": "tensorflow"}, host=HOST)
    loaded = load.load(made.write(tmp_path / "run"))
    documents = [r.model_dump(by_alias=True) for r in schema.read_records(tmp_path / "run", "run")]
    theirs = {"python": python, "jax": "0.10.2", "keras": "3.15.1", "numpy": "2.3.0"}
    theirs |= {k: ENVIRONMENT[k] for k in ("glibc", "cpus", "quota", "isa")}
    for document in documents:
        of_jax = document["levels"]["framework"] == "jax"
        document["workload"] = {"environment": theirs if of_jax else ENVIRONMENT}
        if of_jax:
            document["image"] = synthetic.image("sha256:" + "b" * 64) | {"family": "jax"}
    records = [schema.validate_record(document) for document in documents]
    loaded = load.of_records(loaded.folder, loaded.run, loaded.plan, records)
    load.check_digests(loaded.trials)
    trials = matching.assign(loaded)
    assert set(trials["short"]) == {"tensorflow", "jax"}
    found = equality.confounds(loaded, trials, list(loaded.metrics))
    assert sorted(set(found["what"])) == named
