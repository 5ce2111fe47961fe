"""Kernels, networks, systems and sums over workers run for real under each runtime, as planned.

Beside `test_site`, which has had the image of their family made on this machine.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from strata.trial import slot as trial

import workloads
from controller import merge, metrics, plan
from controller.experiment import load
from tests.conftest import REPO, STATE, playbook

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]
HERE = plan.Host("localhost", "vm", ("native", "docker"), 2)
# Of the smallest slice of an experiment the one cell with these levels, for each runtime.
CHOSEN: list[tuple[str, dict[str, Any]]] = [
    ("ibm2018_gemm", {"kernel": "gemm 512x16x512 nt"}),
    ("ibm2018_convolution", {"direction": "forward"}),
    ("ibm2018_recurrent", {"kernel": "gru 64x4x10", "direction": "training"}),
    ("ibm2018_fathom", {"model": "memnet"}),
    ("hkbu2017_training", {"model": "fcn5"}),
    ("mitll2019", {"model": "snn", "task": "training"}),
    ("hkbu2017_device", {"test": "matmul"}),
    ("hkbu2017_conjugate_gradient", {}),
    ("ibm2018_all_reduce", {"transport": "tensorflow"}),
    ("ibm2018_all_reduce", {"transport": "mpi"}),
]


@pytest.fixture(scope="module")
def image(deployed: None) -> dict[str, str]:
    """That of TensorFlow, natively and in Docker."""
    given = ["-estrata_experiment=ibm2018_fathom", "-estrata_slice=smoke"]
    playbook("site.yml", "--tags=deploy", *given)
    (known,) = (STATE / "images").glob("tensorflow-*/known.json")
    content = json.loads(known.read_text())["digest"]
    names = {"family": "tensorflow", "kind": "rootfs", "digest": content}
    return {**names, "rootfs": str(known.parent / "rootfs")}


@pytest.mark.parametrize("runtime", ["native", "docker"])
def test_each_runs_and_tells_what_it_declares(
    image: dict[str, str], tmp_path: Path, runtime: str
) -> None:
    for name, levels in CHOSEN:
        network = {"native": "host", "docker": "bridge"}[runtime]
        wanted = {**levels, "runtime": runtime, "network": network, "label": ""}
        made = plan.make(load(REPO / f"experiments/{name}.yml", "smoke"), [HERE])
        (slot,) = (s for s in made.slots if wanted.items() <= s.trials[0].levels.items())
        told = {**asdict(slot), "run": "t"}
        order = trial.Order(
            *(told, "localhost", {"tensorflow": image}, {}, {}, 240, tmp_path / "state"),
            **{"addresses": {"localhost": "127.0.0.1"}, "key": "5a" * 16, "judged": False},
        )
        outcomes = trial.run(order, lambda: False)
        workload = slot.trials[0].levels["workload"]
        declared = metrics.declared([str(workload)])
        (outcome,) = merge.slot(told["trials"], outcomes, declared)
        record = outcome["record"]
        assert record["status"] == "ok", record["reason"]
        headlines = [m.name for m in workloads.workload(str(workload)).METRICS if m.headline]
        assert all(record["metrics"][headline]["value"] > 0 for headline in headlines)
