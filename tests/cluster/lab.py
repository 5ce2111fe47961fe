"""A lab of two nodes with a cluster, for the tests of both tiers that have one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import EXPERIMENTS, REPO, environment
from tools import kubernetes_offline

NAME, SUBNET = "cluster", "10.201.247.0/24"
GROUPS = {
    "testbed": {"children": {"native": None}},
    "bare_metal": {"children": {"rehearsal": None}},
    "native": {"children": {"rehearsal": None}},
    "kubernetes": {"children": {"rehearsal": None}},
    "rehearsal": None,
}
SECRET = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}|PRIVATE KEY|client-key-data|LS0tLS1")


@dataclass
class Cluster:
    inventory: Path

    def call(self, role: str, entry: str, *more: str, check: bool = True) -> str:
        """Call an entry point of a role on all nodes; what Ansible said."""
        given = [f"-estrata_root={REPO}", f"-erole={role}", f"-eentry={entry}", *more]
        began = time.monotonic()
        done = run("tests/data/playbooks/cluster.yml", "-i", str(self.inventory), *given)
        print(f"\n{role} {entry} {' '.join(more)}: {time.monotonic() - began:.0f} s")
        said = done.stdout + done.stderr
        assert not SECRET.search(said)
        assert not check or done.returncode == 0, said[-5000:]
        assert check or done.returncode != 0, said[-5000:]
        return said

    def flannel(self, backend: str, entry: str, state: str = "", check: bool = True) -> str:
        more = [
            f"-esetting_name=flannel_{backend}",
            *([f"-esetting_state={state}"] if state else []),
        ]
        return self.call("flannel", entry, *more, check=check)

    def site(
        self, experiment: str, results: Path, *more: str, at: Path = EXPERIMENTS
    ) -> list[dict[str, Any]]:
        """Run an experiment; its records. What it says of time is printed."""
        given = [f"-estrata_experiment={at / experiment}.yml", *more]
        began = time.monotonic()
        done = run("site.yml", "-i", str(self.inventory), *given, f"-estrata_results={results}")
        print(f"\nsite.yml {experiment}: {time.monotonic() - began:.0f} s")
        said = done.stdout + done.stderr
        assert done.returncode == 0, said[-6000:]
        assert not SECRET.search(said)
        return [json.loads(path.read_text()) for path in results.rglob("record.json")]

    def shell(self, node: int, script: str) -> str:
        command = ["docker", "exec", f"rehearsal-{NAME}-node{node}", "/bin/sh", "-c", script]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run(playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ansible-playbook", playbook, *arguments],
        cwd=REPO,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def rehearse(inventory: Path, *more: str) -> None:
    given = [f"-erehearsal_lab={NAME}", f"-erehearsal_subnet={SUBNET}", "-erehearsal_nodes=2"]
    given += [f"-erehearsal_inventory={inventory}", "-erehearsal_rate=none", *more]
    done = run("playbooks/rehearse.yml", *given)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@contextlib.contextmanager
def made(
    inventory: Path, *bundles: str, more: tuple[str, ...] = (), **settings: str
) -> Iterator[Cluster]:
    """Two nodes that are servers, in the groups of `more` as well, with settings of the cluster.

    Skips where what a cluster is made of was not made before.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root: a rehearsal lab cannot be had without")
    for bundle in bundles:
        if not kubernetes_offline.folder(REPO / ".cache", bundle).is_dir():
            pytest.skip(f"the offline folder of {bundle} is not there: ./run-tests says why")
    inventory.mkdir()
    groups: dict[str, Any] = GROUPS | {name: {"children": {"rehearsal": None}} for name in more}
    groups["kubernetes"] = {**groups["kubernetes"], "vars": settings}
    (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))
    try:
        rehearse(inventory)
        yield Cluster(inventory)
    finally:
        rehearse(inventory, "-estate=absent")
