"""What may happen to a lab while it runs, each for real: nothing that was measured is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import rehearse
from .lab import AGAIN, Lab, container, folder, only, planned, records, whole

pytestmark = [
    *(pytest.mark.root, pytest.mark.docker, pytest.mark.image),
    *(pytest.mark.lab, pytest.mark.second_lab, pytest.mark.usefixtures("nothing_left")),
]


def test_the_controller_is_killed_in_deploy_and_in_a_trial(
    lab: Lab, results: Path, tmp_path: Path
) -> None:
    """At every other moment `./run-tests long` kills it. While it lives, no other run begins."""
    running = lab.begin("faults", results).until_said("TASK [Hold the same images everywhere]")
    running.pause()
    refused = lab.site("spin", tmp_path / "other", check=False)
    assert refused.returncode != 0 and "given: run faults-" in refused.stdout
    running.kill()
    assert records(results) == {}
    running = lab.begin("faults", results)
    running.until_trial(count=1)
    running.kill()
    kept = records(results)
    assert kept
    lab.site("faults", results)
    now = records(results)
    assert {name: now[name] for name in kept} == kept, "a record was lost or changed"
    assert whole(results) and len(now) == len(planned(results))


def test_a_node_is_powered_off_and_on_again(lab: Lab, results: Path) -> None:
    running = lab.begin("faults", results)
    slot = running.until_trial(on="node2")
    subprocess.run(["docker", "kill", container("node2")], check=True, capture_output=True)
    try:
        assert running.end() != 0
        assert "No longer reachable: node2" in running.text()
        lost = records(results)[slot["trials"][0]["trial"]]
        assert lost["reason"]["cause"] == "host_lost"
        assert "node2" in lost["reason"]["message"]
        refused = lab.site("faults", results, check=False)
        assert refused.returncode != 0
        assert "node2" in refused.stdout.split("UNREACHABLE")[1]
    finally:
        rehearse(lab.inventory)
    lab.site("faults", results, AGAIN)
    assert whole(results)
    assert only(results) == {lost["trial"]: "host_lost"}


def test_the_disk_of_the_results_is_full(lab: Lab, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], check=True)
    try:
        failed = lab.site("faults", disk, check=False)
        assert failed.returncode != 0
        assert "the results folder cannot be written" in failed.stdout
        assert "No space left on device" in failed.stdout
        kept = records(disk)
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        lab.site("faults", disk)
        now = records(disk)
        assert {name: now[name] for name in kept} == kept
        assert whole(disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_disk_of_a_node_is_full(lab: Lab, results: Path) -> None:
    trials = "/var/lib/strata/trials"
    lab.shell("node1", f"mkdir -p {trials} && mount -t tmpfs -o size=4k tmpfs {trials}")
    try:
        lab.site("faults", results)
    finally:
        lab.shell("node1", f"umount {trials}")
    failed = {name: r for name, r in records(results).items() if r["status"] == "failed"}
    assert failed and all(r["hosts"] == ["node1"] for r in failed.values())
    assert all("No space left" in r["reason"]["message"] for r in failed.values())
    run = folder(results)
    assert run
    lab.site("faults", results, AGAIN, f"-estrata_run={run.name}")
    assert whole(results)


def test_the_engine_is_restarted(lab: Lab, results: Path) -> None:
    running = lab.begin("faults", results, AGAIN)
    slot = running.until_trial(runtime="docker")
    host = slot["hosts"][0]
    under_way = "docker ps --quiet --filter label=strata.trial"
    running.until(lambda: lab.shell(host, under_way, check=False), "a container")
    # An orderly restart waits for containers; this one does not, and systemd starts it again.
    lab.shell(host, "systemctl kill --kill-who=main --signal=KILL docker")
    assert running.end() == 0
    causes = only(results)
    assert causes.pop(slot["trials"][0]["trial"]) == "runtime_lost"
    # The next one there may have come before the engine was back.
    assert set(causes.values()) <= {"start"}
    assert whole(results)
