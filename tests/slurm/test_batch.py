"""Strata as `sbatch` starts it: what is wrapped is the controller, on the first node of its job.

The account has no rights on the nodes, and Strata in a folder that all of them see.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import tree as trees
from tests.conftest import REPO
from tests.integration.lab import PATIENCE_S, cells, folder, journal, planned, records

from .conftest import NODES, USER, Cluster

HOSTS = ("first", "second")
STATE = "/var/tmp/strata-batch"
SPIN = "strata_experiment=tests/data/experiments/slurm.yml"
LOOK_S = 0.2
# As docs/slurm.md has it.
SITE = """
testbed: {children: {native: {hosts: {first: , second: }}}}
bare_metal: {hosts: {first: , second: }}
all:
  vars: {strata_image_kind: venv, strata_state_dir: %s}
native: {vars: {strata_provider: slurm, slurm_partition: lab}}
"""
# The environment of the image, which is made where the nodes see it.
IMAGE = """
from pathlib import Path
from controller import families
from strata.image.build import Builder
given = {"kind": "venv", "suite": "bookworm", "reference": ""}
given["workloads"] = Path("workloads").absolute()
Builder(families.source(families.load("python"), given), Path(".cache").absolute()).build()
"""


@dataclass
class Checkout:
    """Strata in a folder of the account, at the same path on the nodes."""

    path: Path
    cluster: Cluster

    def run(self, command: list[str], check: bool = True) -> str:
        """What a command says to the user, who stands in this folder."""
        here = f"cd {self.path} && . .venv/bin/activate && export LC_ALL=C.UTF-8"
        asked = f"{shlex.join(command)} 2>&1{'' if check else ' || true'}"
        return self.cluster.on("node1", f"{here} && {asked}", USER)

    def submit(self, command: str, *given: str) -> str:
        """The number of the job that runs a command here."""
        log = f"--output={self.path}/%j.log"
        return self.run(
            ["sbatch", "--parsable", "--nodes=2", log, *given, "--wrap", command]
        ).strip()

    def ended(self, job: str) -> dict[str, str]:
        """What Slurm says of a job once it has ended."""
        self.until(f'test -z "$(squeue --noheader --jobs={job} 2>/dev/null)"', job)
        said = self.cluster.on("node1", f"scontrol --oneliner show job {job}").split()
        return dict(word.split("=", 1) for word in said if "=" in word)

    def log(self, number: str) -> str:
        return self.cluster.on("node1", f"cat {self.path}/{number}.log")

    def until(self, holds: str, what: str) -> None:
        """Wait until a command succeeds on the first node."""
        deadline = time.monotonic() + PATIENCE_S
        while self.cluster.on("node1", f"{holds} && echo yes || true") != "yes\n":
            assert time.monotonic() < deadline, what
            time.sleep(LOOK_S)

    def results(self, to: Path) -> Path:
        to.mkdir(exist_ok=True)
        self.cluster.fetch(self.path / "results", to)
        return to

    def left_on_nodes(self) -> str:
        """What of Strata's is on the nodes."""
        processes = "grep -ls '[w]orkloads' /proc/[0-9]*/cmdline || true"
        look = f"ls -d {STATE} /tmp/strata-* 2>/dev/null; {processes}"
        return "".join(self.cluster.on(node, look) for node in NODES)


@pytest.fixture(scope="module")
def checkout(cluster: Cluster) -> Iterator[Checkout]:
    with tempfile.TemporaryDirectory(prefix="strata-home-", dir="/var/tmp") as name:
        path = Path(name) / "strata"
        trees.copy(path)
        shutil.copy(REPO / "tests/data/workloads/reading.py", path / "workloads")
        (path / "site").mkdir()
        (path / "site/hosts.yml").write_text(SITE % STATE)
        for kind in ("rose", "tulip"):
            (path / "flowers" / kind).mkdir(parents=True)
            for number in range(20):
                (path / f"flowers/{kind}/{number}.jpg").write_bytes(bytes([number]) * 10_000)
        # With a Python that the nodes have at the same place.
        system = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        made = ["bash", "-c", ". tools/environment.sh run"]
        for command in (made, [".venv/bin/python", "-c", IMAGE]):
            subprocess.run(command, cwd=path, env=system, check=True)
        cluster.copy(path, NODES[:1])
        cluster.copy(path / ".cache", NODES[1:])
        yield Checkout(path, cluster)


def test_an_array_measures_to_the_end_though_an_element_is_cut_short(
    checkout: Checkout, tmp_path: Path
) -> None:
    """With real data, which is carried to the nodes of each element."""
    experiment = "tests/data/experiments/batch.yml"
    given = ["-estrata_run=mine", f"-estrata_experiment={experiment}", "-estrata_dataset=flowers"]
    given.append('-e{"strata_retry": ["host_lost"]}')
    command = shlex.join(["ansible-playbook", "site.yml", "-i", "site", *given])
    array = checkout.submit(command, "--exclusive", "--time=30", "--array=1-3%1")
    cluster, run = checkout.cluster, checkout.path / "results/mine"

    # The first is cut short in the middle, and takes with it what it has on the nodes.
    finished = f"grep -c slot_finished {run}/journal.jsonl 2>/dev/null"
    checkout.until(f'test "$({finished})" -ge 2', "two slots")
    cluster.on("node1", f"scancel {array}_1", USER)
    first = checkout.ended(f"{array}_1")
    assert first["JobState"] == "CANCELLED", checkout.log(first["JobId"])[-3000:]
    before = set(cluster.on("node1", f"ls {run}/trials").split())

    # The second goes on, and the third finds nothing to do.
    second, third = (checkout.ended(f"{array}_{number}") for number in (2, 3))
    logs = {end["JobId"]: checkout.log(end["JobId"]) for end in (second, third)}
    for end in (second, third):
        assert end["JobState"] == "COMPLETED", logs[end["JobId"]][-4000:]
    results = checkout.results(tmp_path / "results")
    assert cells(results) == planned(results)
    assert 0 < len(before) < len(records(results))
    assert "resuming mine" in logs[second["JobId"]]
    assert "what is left is its report" in logs[third["JobId"]]

    # The job of each that measured stands on record, by the nodes that its hosts were.
    found = folder(results)
    assert found and found.name == "mine"
    hosts = json.loads((found / "run.json").read_text())["hosts"]
    resumed = [event["instances"] for event in journal(results) if event["event"] == "resumed"]
    told = [{name: host["instance"] for name, host in hosts.items()}, *resumed]
    jobs = [first["JobId"], second["JobId"]]
    assert told == [
        dict(zip(HOSTS, [f"{job}/{node}" for node in NODES], strict=True)) for job in jobs
    ]

    # The data is the controller's, to the byte, whichever node it was read on.
    every = list(records(results).values())
    assert {record["hosts"][0] for record in every} == set(HOSTS)
    good = [record for record in every if record["status"] == "ok"]
    assert {record["metrics"]["files"]["value"] for record in good} == {40}
    assert {record["dataset"]["origin"] for record in good} == {"given"}
    assert checkout.left_on_nodes() == ""


def test_a_job_with_parts_of_nodes_is_refused(checkout: Checkout) -> None:
    job = checkout.submit("sleep 3600", "--ntasks=2")
    try:
        checkout.until(f"squeue --noheader --states=R --jobs={job} | grep -q .", "a job")
        preflight = ["ansible-playbook", "playbooks/preflight.yml", "-i", "site", f"-e{SPIN}"]
        said = checkout.run([*preflight, f"-eslurm_job={job}"], check=False)
        assert "the job that is given has whole nodes" in said, said[-3000:]
    finally:
        checkout.cluster.on("node1", f"scancel {job}", USER)
        checkout.ended(job)
