"""What may happen to hosts that train together: on the lab that holds TensorFlow's image."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from .lab import AGAIN, Lab, folder, only, records, whole

pytestmark = [
    *(pytest.mark.root, pytest.mark.docker, pytest.mark.image),
    *(pytest.mark.lab, pytest.mark.usefixtures("nothing_left")),
]


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
