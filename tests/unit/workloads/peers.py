"""Clusters of real processes on loopback, for tests."""

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import PATIENCE_S
from tests.unit.workloads.forked import start as start_forked

ROOT = Path(__file__).resolve().parents[3]
STARTED: list[Callable[[], None]] = []  # by a test; how tests/unit/workloads/conftest.py ends it
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
KEY = "5a" * 16


def ports(count: int) -> list[int]:
    """Free ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def clusters(mode: str, workers: int, servers: int = 0, **changes: Any) -> list[dict[str, Any]]:
    """The key `cluster` of each member, workers first."""
    free = ports(workers + servers)
    addresses = [f"127.0.0.1:{port}" for port in free]
    return [
        {
            "mode": mode,
            "role": "worker" if number < workers else "server",
            "index": number if number < workers else number - workers,
            "workers": addresses[:workers],
            "servers": addresses[workers:],
            "listen": port,
            "key": KEY,
            "find_s": PATIENCE_S,
            "silent_s": 2 * PATIENCE_S,  # so it is not silence that ends a test
        }
        | changes
        for number, port in enumerate(free)
    ]


class Process:
    """One workload process."""

    def __init__(self, name: str, folder: Path, options: dict[str, Any], **config: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.out = folder / "out"
        self._said = folder / "stderr"
        path = folder / "config.json"
        path.write_text(json.dumps({"options": options} | config))
        self.process = start_forked(name, path, self.out, self._said)
        STARTED.append(self.process.kill)

    def status(self) -> int:
        """Its exit status, or the negative number of the signal that ended it."""
        self.process.join(PATIENCE_S)
        assert self.process.exitcode is not None, "it does not end"
        return self.process.exitcode

    def said(self) -> str:
        """All that it wrote to stderr."""
        return self._said.read_text()

    def end(self) -> tuple[int, str]:
        """Status and the last line of stderr."""
        status = self.status()
        return status, (self.said().strip().splitlines() or [""])[-1]

    def well(self) -> "Process":
        """Asserts that it ends well."""
        status, said = self.end()
        assert status == 0, said
        return self

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "result.json").read_text())
        return found

    def steps(self, phase: str = "measured") -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in (self.out / "steps.jsonl").read_text().splitlines()]
        return [row for row in rows if row["phase"] == phase]


def until(seen: Callable[[], Any], what: str) -> None:
    """Wait until something is seen; fail when it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.02)


def start(
    name: str, folder: Path, options: dict[str, Any], told: list[dict[str, Any]], **config: Any
) -> list[Process]:
    """All members of a cluster."""
    return [
        Process(name, folder / str(number), options, cluster=cluster, cpus=1, **config)
        for number, cluster in enumerate(told)
    ]
