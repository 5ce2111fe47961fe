"""Hosts that provision makes, inside site.yml: killed, resumed, replaced, and taken away again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller import ledger
from schema import lives as schema
from tests.conftest import REPO, environment, playbook

from .lab import Lab, folder, journal, planned, records

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]

LAB, SUBNET = "made", "10.201.247.0/24"
NODES = {"node1": "10.201.247.11", "node2": "10.201.247.12"}


def docker(*command: str) -> str:
    done = subprocess.run(["docker", *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def container(node: str) -> str:
    return f"rehearsal-{LAB}-{node}"


def nodes() -> list[str]:
    """Those that are there, running or not."""
    return docker("ps", "-aq", f"--filter=label=strata.rehearsal={LAB}").split()


def write(inventory: Path, **settings: str) -> None:
    """Two hosts that are nowhere yet."""
    made = {
        "hosts": {name: {"strata_address": address} for name, address in NODES.items()},
        "vars": {
            **{"strata_provider": "rehearsal", "rehearsal_lab": LAB, "rehearsal_subnet": SUBNET},
            **{"rehearsal_rate": "none", **settings},
        },
    }
    groups = {
        "testbed": {"children": {"native": {"children": {"nodes": made}}}},
        "bare_metal": {"children": {"nodes": {}}},
    }
    (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))


@pytest.fixture
def testbed(deployed: None, tmp_path: Path) -> Iterator[Lab]:
    inventory = tmp_path / "testbed"
    inventory.mkdir()
    write(inventory)
    try:
        yield Lab(inventory, list(NODES), {})
    finally:
        lab = [f"-erehearsal_lab={LAB}", f"-erehearsal_subnet={SUBNET}"]
        lab += [f"-erehearsal_inventory={tmp_path}/none", "-estate=absent"]
        playbook("playbooks/rehearse.yml", *lab)


def on(testbed: Lab, name: str, *given: str, check: bool = True) -> str:
    """A playbook on the testbed; what it says."""
    done = subprocess.run(
        ["ansible-playbook", f"playbooks/{name}.yml", "-i", str(testbed.inventory), *given],
        **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
        check=False,
    )
    assert (done.returncode == 0) is check, done.stdout[-3000:]
    return done.stdout


def test_hosts_are_made_and_found_again_and_taken_away(testbed: Lab, tmp_path: Path) -> None:
    results = tmp_path / "results"
    book = ledger.Ledger(REPO / ".cache", ledger.testbed([str(testbed.inventory)]))
    given = ("spin", results, "-estrata_slice=native")
    said = on(testbed, "preflight", *testbed.command(*given)[4:])
    assert "2 slots" in said and nodes() == [] and book.hosts() == {}, "a plan needs no host"

    making = testbed.begin(*given)
    making.until(nodes, "a node")
    making.kill()
    assert set(book.hosts()) == set(NODES), "what may be there was noted before"

    running = testbed.begin(*given)
    running.until(lambda: records(results), "a record")
    running.kill()
    run = folder(results)
    assert run
    hosts = json.loads((run / "run.json").read_text())["hosts"]
    before = {name: host["instance"] for name, host in hosts.items()}
    assert before == {name: entry["instance"] for name, entry in book.hosts().items()}
    assert before == {name: docker("inspect", "-f{{.Id}}", container(name))[:12] for name in NODES}

    lives = {life.instance: life for life in schema.read_lives(run)}
    assert set(lives) == set(before.values())
    for life in lives.values():
        assert 0 < life.seconds("active") < life.seconds("reached")

    docker("rm", "-f", container("node2"))
    done = testbed.site(*given)
    assert f"node2 is another instance: {book.hosts()['node2']['instance']}" in done.stdout
    resumed = next(event for event in journal(results) if event["event"] == "resumed")
    assert resumed["instances"]["node1"] == before["node1"]
    assert resumed["instances"]["node2"] != before["node2"]
    assert set(records(results)) == {f"{cell}-r{number}" for cell, number in planned(results)}

    # What the ledger says goes, whatever the inventory says by now; what it does not is found.
    write(testbed.inventory, rehearsal_lab="another", rehearsal_subnet="10.201.246.0/24")
    image = docker("inspect", "-f{{.Config.Image}}", container("node1"))
    stray = docker("create", f"--label=strata.testbed={book.testbed}", "--name=stray", image)
    try:
        said = on(testbed, "teardown", "--limit=testbed", check=False)
        assert "stray" in said, said[-3000:]
        assert nodes() == [] and book.hosts()
    finally:
        docker("rm", stray)
    said = on(testbed, "teardown", "--limit=testbed", f"-estrata_results={results}")
    assert "node1 (rehearsal): gone after" in said
    ended = {life.instance: life for life in schema.read_lives(run)}
    assert len(ended) == 3, "of the one that somebody removed nobody knows when"
    assert [k for k, life in ended.items() if not life.gone] == [before["node2"]]
    assert book.hosts() == {} and not (REPO / ".cache/rehearsal" / LAB).exists()
