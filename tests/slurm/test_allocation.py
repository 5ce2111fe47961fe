"""Hosts that are an allocation: refused, had, measured, cancelled by hand, given back.

The account has no rights on the nodes. No mock anywhere: what Slurm says is said by its daemons.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller import ledger
from tests.conftest import EXPERIMENTS
from tests.integration.lab import PATIENCE_S, Lab, cells, folder, planned, records

from .conftest import NODES, USER, Cluster, play

HOSTS = ("first", "second")
STATE = "/var/tmp/strata-slurm-test"
SPIN = f"-estrata_experiment={EXPERIMENTS}/slurm.yml"


@dataclass
class Testbed(Lab):
    """Two hosts that are nowhere yet."""

    cluster: Cluster
    cache: Path
    __test__ = False

    def write(self, hosts: tuple[str, ...] = HOSTS, **settings: Any) -> None:
        given = {
            **{"strata_provider": "slurm", "slurm_login": "login"},
            **{"slurm_login_arguments": self.cluster.login, "slurm_partition": "lab"},
            **{"slurm_time": "30m", "slurm_patience": PATIENCE_S, "strata_state_dir": STATE},
            **settings,
        }
        # The virtual environment is made of a Python that the nodes have at the same place.
        here = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
        groups = {
            "all": {
                "hosts": {"localhost": here},
                "vars": {"strata_image_kind": "venv", "strata_cache": str(self.cache)},
            },
            "testbed": {"children": {"native": {"hosts": dict.fromkeys(hosts), "vars": given}}},
            "vm": {"hosts": dict.fromkeys(hosts)},
        }
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump(groups))

    def write_with_root(self, job: str) -> None:
        """The nodes of a job that somebody has, where the account may become root."""
        self.write(slurm_job=job, slurm_become=True, strata_state_dir="/var/lib/strata")
        path = self.inventory / "hosts.yml"
        groups = yaml.safe_load(path.read_text())
        del groups["all"]
        groups["testbed"]["children"]["apptainer"] = {"hosts": dict.fromkeys(HOSTS)}
        path.write_text(yaml.safe_dump(groups))

    def on(self, name: str, *given: str, check: bool = True) -> str:
        return play(name, "-i", str(self.inventory), *given, check=check)

    @property
    def ledger(self) -> ledger.Ledger:
        return ledger.Ledger(self.cache, ledger.testbed([str(self.inventory)]))

    def left_on_nodes(self) -> str:
        """What of Strata's is on the nodes."""
        processes = "grep -ls '[w]orkloads' /proc/[0-9]*/cmdline || true"
        look = f"ls -d {STATE} /tmp/strata-* 2>/dev/null; {processes}"
        return "".join(self.cluster.on(node, look) for node in NODES)


@pytest.fixture
def testbed(cluster: Cluster, tmp_path: Path) -> Iterator[Testbed]:
    inventory = tmp_path / "testbed"
    inventory.mkdir()
    made = Testbed(inventory, list(HOSTS), {}, cluster, tmp_path / "cache")
    made.write()
    try:
        yield made
    finally:
        made.write()
        made.on("playbooks/teardown")
        assert made.cluster.jobs() == []


def test_what_cannot_be_had_is_refused_before_anything_is_asked_for(testbed: Testbed) -> None:
    for settings, words in (
        ({"slurm_partition": "large"}, "the site has the partition"),
        ({"slurm_time": "90d"}, "within the partition's limit"),
        ({"slurm_time": "soon"}, "a duration is a number with s, m, h or d"),
        ({"slurm_constraint": "third"}, "have the feature that slurm_constraint names"),
        ({"hosts": (*HOSTS, "third")}, "as many nodes as the testbed has hosts"),
        ({"slurm_login": "nowhere"}, "lets this account in, by a key"),
        ({"slurm_login": ""}, "the commands of Slurm are here"),
    ):
        testbed.write(**settings)
        said = testbed.on("playbooks/preflight", SPIN, check=False)
        assert words in said, said[-3000:]
    assert testbed.cluster.jobs() == [] and testbed.ledger.hosts() == {}


def test_hosts_are_had_measured_cancelled_and_given_back(testbed: Testbed, tmp_path: Path) -> None:
    results, book, cluster = tmp_path / "results", testbed.ledger, testbed.cluster
    given = [SPIN, f"-estrata_results={results}"]
    said = testbed.on("site", *given, "--tags=provision", "--check", check=False)
    assert "first, second would be made" in said, said[-3000:]
    assert cluster.jobs() == []

    said = testbed.on("site", *given, "--tags=deploy", check=False)
    assert "a host sees a virtual environment" in said, said[-3000:]
    cluster.copy(testbed.cache)
    (job,) = cluster.jobs()
    assert {entry["what"]["job"] for entry in book.hosts().values()} == {f"strata-{book.testbed}"}
    held = {host: entry["instance"] for host, entry in book.hosts().items()}
    assert held == {"first": f"{job}/node1", "second": f"{job}/node2"}
    said = testbed.on("site", *given, "--tags=provision")
    assert said.count("changed=0 ") == 3 and cluster.jobs() == [job], said[-3000:]

    # Somebody cancels the job while trials run. What they left goes with it.
    running = testbed.begin("slurm", results)
    running.until(lambda: len(cells(results)) >= 2, "two trials")
    cluster.on("node1", f"scancel {job}", USER)
    assert running.end() != 0, running.text()[-3000:]
    kept = cells(results)
    assert kept and kept < planned(results)
    cluster.on("node1", 'until [ -z "$(squeue -h)" ]; do sleep 0.2; done')
    assert testbed.left_on_nodes() == ""

    said = testbed.on("site", *given, '-e{"strata_retry": ["host_lost"]}')
    (other,) = cluster.jobs()
    assert other != job and f"first is another instance: {other}/node1, was {job}/node1" in said
    assert cells(results) == planned(results)
    found = records(results).values()
    assert {record["platform"] for record in found} == {"vm/native/host"}
    run = folder(results)
    assert run
    hosts = json.loads((run / "run.json").read_text())["hosts"]
    assert {host["instance"].split("/")[0] for host in hosts.values()} <= {job, other}

    testbed.on("playbooks/teardown")
    assert cluster.jobs() == [] and testbed.left_on_nodes() == "" and book.hosts() == {}


def test_in_a_job_of_ones_own_with_root_trials_run_in_apptainer_too(
    testbed: Testbed, apptainer: None, tmp_path: Path
) -> None:
    """As `sbatch` starts Strata: the job gives its nodes, and is neither made nor ended."""
    results, cluster = tmp_path / "results", testbed.cluster
    asked = "sbatch --parsable --nodes=2 --exclusive --output=/dev/null --wrap='sleep 3600'"
    job = cluster.on("node1", asked, USER).strip()
    try:
        testbed.write_with_root(job)
        testbed.on("site", SPIN, "-estrata_slice=apptainer", f"-estrata_results={results}")
        found = list(records(results).values())
        assert {record["status"] for record in found} == {"ok"}
        platforms = {record["platform"].split("/")[1] for record in found}
        assert platforms == {"native", "apptainer"}
        assert len({record["image"]["digest"] for record in found}) == 1
        run = folder(results)
        assert run
        hosts = json.loads((run / "run.json").read_text())["hosts"]
        assert hosts["second"]["instance"] == f"{job}/node2"
        testbed.on("playbooks/teardown", "--limit=testbed")
        assert cluster.jobs() == [job]
        for node in NODES:
            # The state folder itself is the disk of a rehearsal node.
            places = "/var/lib/strata /run/strata /opt/strata-apptainer"
            assert cluster.on(node, f"find {places} -mindepth 1 2>/dev/null || true") == ""
    finally:
        cluster.on("node1", f"scancel {job}", USER)
        cluster.on("node1", 'until [ -z "$(squeue -h)" ]; do sleep 0.2; done')
