"""What may happen to a lab while it runs, each for real: nothing that was measured is lost."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from .conftest import rehearse
from .lab import Lab, cells, container, folder, journal, planned, records

pytestmark = [
    *(pytest.mark.root, pytest.mark.docker, pytest.mark.image),
    *(pytest.mark.lab, pytest.mark.second_lab),
]
CAUSES = ["host_lost", "runtime_lost", "start", "exit", "output", "peer"]
AGAIN = "-e" + json.dumps({"strata_retry": CAUSES})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture(autouse=True)
def nothing_is_left(lab: Lab) -> Iterator[None]:
    yield
    assert lab.left() == {}


def whole(results: Path) -> bool:
    """Every trial of the plan has ended well, and the run is reported."""
    return cells(results) == planned(results) and journal(results)[-1]["event"] == "reported"


def only(results: Path) -> dict[str, str]:
    """The causes of those that did not end well, by folder."""
    return {name: r["reason"]["cause"] for name, r in records(results).items() if r["reason"]}


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


def test_two_nodes_lose_each_other(lab: Lab, results: Path) -> None:
    running = lab.begin("peers", results)
    running.until_trial()
    other = lab.address("node2")
    rules = (f"INPUT -s {other} -j DROP", f"OUTPUT -d {other} -j DROP")
    lab.shell("node1", " && ".join(f"iptables -I {rule}" for rule in rules))
    try:
        running.end()
    finally:
        lab.shell("node1", " && ".join(f"iptables -D {rule}" for rule in rules))
    (record,) = records(results).values()
    assert record["reason"]["cause"] == "peer", record["reason"]
    run = folder(results)
    assert run
    lab.site("peers", results, AGAIN, f"-estrata_run={run.name}")
    assert whole(results)
    assert only(results) == {record["trial"]: "peer"}


def test_a_worker_is_stopped(lab: Lab, results: Path) -> None:
    """And the key of its trial is nowhere but in the trial: it hangs for long enough to look."""
    running = lab.begin("hung", results, "-vvvv")
    running.until_trial()
    config = json.loads(lab.shell("node2", "cat /var/lib/strata/trials/*/in/config.json"))
    key = config["cluster"]["key"]
    shown = lab.shell(
        "node2", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' ' '", False
    )
    lab.shell("node2", "pkill -STOP --full -- '[-]m workloads'")
    running.end()
    kept = [path.read_bytes() for path in results.rglob("*") if path.is_file()]
    assert len(key) == 64 and len(kept) > 5 and "strata_trial" in running.text()
    assert key not in shown + running.text()
    assert not any(key.encode() in content for content in kept)
    (record,) = records(results).values()
    assert record["reason"]["cause"] == "timeout"
    stopped = next(m for m in record["members"] if m["host"] == "node2")
    assert "File " in stopped["reason"]["message"], "its stack is on the record"
    assert {m["status"] for m in record["members"]} == {"failed"}


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


AHEAD = """
import datetime, time
now = time.time
time.time = lambda: now() + 3600


class Ahead(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(hours=1)


datetime.datetime = Ahead
"""


def test_clocks_an_hour_apart(lab: Lab, results: Path) -> None:
    """The nodes share the machine's clock, so what Strata reads on one of them is moved."""
    where, python = "/usr/local/lib/ahead", "/usr/local/bin/python-ahead"
    script = f'#!/bin/sh\nPYTHONPATH={where} exec /usr/bin/python3 "$@"\n'
    lab.shell("node2", f"mkdir -p {where}; cat > {where}/sitecustomize.py <<'X'\n{AHEAD}X\n")
    lab.shell("node2", f"cat > {python} <<'X'\n{script}X\nchmod +x {python}")
    inventory = lab.inventory / "clock.yml"
    inventory.write_text(f"all: {{hosts: {{node2: {{ansible_python_interpreter: {python}}}}}}}\n")
    try:
        lab.site("faults", results)
        lab.site("peers", results)
    finally:
        inventory.unlink()
    assert all(record["status"] == "ok" for record in records(results).values())
    begun = {r["hosts"][0]: r["started"] for r in records(results).values() if not r["members"]}
    first, second = (datetime.fromisoformat(begun[node]) for node in ("node1", "node2"))
    assert 0.9 < (second - first).total_seconds() / 3600 < 1.1, "the clocks were apart"
    (distributed,) = [r for r in records(results).values() if r["members"]]
    assert distributed["metrics"]["skew"]["value"] < 1.0
