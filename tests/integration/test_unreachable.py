"""Hosts that SSH does not let in, each for another reason: all are named, and none is held."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.host import lease

from .lab import Lab, container

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.lab]
GROUPS = ("testbed", "bare_metal", "native", "docker")
# What each says of itself, in the words of SSH.
CAUSES = {
    "key": "Permission denied (publickey",
    "user": "Permission denied (publickey",
    "host_key": "Host key verification failed",
    "paused": "timed out",
}


def key(at: Path) -> Path:
    """A key that nobody knows."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(at)]
    subprocess.run(command, check=True, capture_output=True)
    return at


@pytest.fixture
def paused() -> Iterator[str]:
    """A node whose kernel answers, and nothing else."""
    subprocess.run(["docker", "pause", container("node2")], check=True, capture_output=True)
    try:
        yield "node2"
    finally:
        subprocess.run(["docker", "unpause", container("node2")], check=True, capture_output=True)


@pytest.fixture
def inventory(lab: Lab, paused: str, tmp_path: Path) -> Path:
    """The first node as it is, and by other names as it cannot be reached; the other, paused."""
    found = yaml.safe_load((lab.inventory / "nodes.yml").read_text())["rehearsal"]
    hosts, shared = found["hosts"], found["vars"]
    known = tmp_path / "known_hosts"
    another = key(tmp_path / "host").with_suffix(".pub").read_text()
    known.write_text(f"{hosts['node1']['ansible_host']} {another}")
    known_before = shared["ansible_ssh_common_args"].split("UserKnownHostsFile=")[1].split()[0]
    arguments = shared["ansible_ssh_common_args"].replace(known_before, str(known))
    # No connection of another test's is taken along.
    fresh: dict[str, Any] = {"ansible_ssh_extra_args": "-o ControlPath=none"}
    made = {
        "node1": hosts["node1"],
        "key": {"ansible_ssh_private_key_file": str(key(tmp_path / "other"))},
        "user": {"ansible_user": "nobody-there"},
        "host_key": {"ansible_ssh_common_args": arguments},
    }
    made = {name: {**hosts["node1"], **fresh, **more} for name, more in made.items()}
    made["paused"] = {**hosts[paused], **fresh}
    tree: dict[str, Any] = {name: {"children": {"nodes": None}} for name in GROUPS}
    tree["nodes"] = {"hosts": made, "vars": shared}
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_each_is_named_with_its_cause_and_none_is_held(
    lab: Lab, inventory: Path, tmp_path: Path
) -> None:
    there = Lab(inventory, lab.nodes, {})
    done = there.site("spin", tmp_path / "results", "-estrata_slice=native", check=False)
    # The lines of a reason are folded where they are long.
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    for name, cause in CAUSES.items():
        (reason,) = [part for part in said.split("fatal: ")[1:] if part.startswith(f"[{name}]")]
        assert "UNREACHABLE" in reason and cause in reason, reason
        assert f"{name} cannot be reached, for the reason above" in said
    assert "node1 cannot be reached" not in said
    assert "Hold the host" not in said
    assert not (tmp_path / "results").exists()
    assert lease.current() is None
    assert lab.shell("node1", "cat /run/strata/lease.json 2>/dev/null", check=False) == ""
