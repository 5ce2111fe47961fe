"""A Slurm cluster of two rehearsal nodes: up before the first test, gone after the last.

It is reached as a user reaches a site: by SSH on a login node, with an account that has no rights.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPO, environment

LAB, SUBNET = "slurm", "10.201.10.0/24"
NODES = ("node1", "node2")
USER = "strata"


@dataclass
class Cluster:
    """`inventory` is the lab's folder, `login` the arguments of an ssh to its login node."""

    inventory: Path
    login: list[str]

    def play(self, name: str, *given: str, check: bool = True) -> str:
        """A playbook on the lab; what it says."""
        return play(name, "-i", str(self.inventory), *given, check=check)

    def on(self, node: str, script: str, user: str = "root") -> str:
        """Run a script on a node, past Slurm; its output."""
        command = ["docker", "exec", "--user", user, f"rehearsal-{LAB}-{node}"]
        done = subprocess.run(
            [*command, "/bin/sh", "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout

    def jobs(self) -> list[str]:
        """Ids of those that have not ended."""
        return self.on("node1", "squeue --noheader --format=%A").split()

    def copy(self, folder: Path, nodes: Sequence[str] = NODES) -> None:
        """A folder of this machine at the same path on nodes, as if they shared its disk."""
        for node in nodes:
            unpack = ["docker", "exec", "-i", f"rehearsal-{LAB}-{node}", "tar", "-C/", "-x"]
            pack = ["tar", "-C/", "-c", str(folder)[1:]]
            with subprocess.Popen(pack, stdout=subprocess.PIPE) as packing:
                subprocess.run(unpack, stdin=packing.stdout, check=True)
            assert packing.returncode == 0
            self.on(node, f"chown -R {USER} {folder}")
            for path in folder.parents:
                self.on(node, f"chmod a+rx {path}")

    def fetch(self, folder: Path, to: Path) -> None:
        """What is in a folder of the first node."""
        copied = [f"rehearsal-{LAB}-{NODES[0]}:{folder}/.", str(to)]
        subprocess.run(["docker", "cp", "--quiet", *copied], check=True, capture_output=True)


def play(name: str, *given: str, check: bool = True) -> str:
    done = subprocess.run(
        ["ansible-playbook", f"{name}.yml", *given],
        **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
        check=False,
    )
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said[-6000:]
    assert (done.returncode == 0) is check, said[-6000:]
    return said


def rehearse(inventory: Path, *given: str) -> None:
    lab = [
        f"-erehearsal_lab={LAB}",
        f"-erehearsal_subnet={SUBNET}",
        f"-erehearsal_nodes={len(NODES)}",
    ]
    play("playbooks/rehearse", *lab, f"-erehearsal_inventory={inventory}", *given)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if os.geteuid() != 0:
        pytest.skip("needs root: rehearsal nodes are made")
    folder = tmp_path_factory.mktemp("slurm")
    inventory = folder / "lab"
    try:
        rehearse(inventory)
        (inventory / "hosts.yml").write_text(
            (REPO / "inventories/rehearsal/hosts.yml").read_text()
            + yaml.safe_dump(
                {"slurm": {"hosts": {"node1": {}, "node2": {"slurm_cluster_features": ["second"]}}}}
            )
        )
        nodes = yaml.safe_load((inventory / "nodes.yml").read_text())["rehearsal"]
        ssh = folder / "ssh_config"
        ssh.write_text(
            f"Host login\n  HostName {nodes['hosts']['node1']['strata_address']}\n  User {USER}\n"
            f"  IdentityFile {nodes['vars']['ansible_ssh_private_key_file']}\n"
            "  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {REPO}/.cache/rehearsal/{LAB}/known_hosts\n"
            "  StrictHostKeyChecking yes\n"
        )
        made = Cluster(inventory, ["-F", str(ssh)])
        made.play("playbooks/slurm")
        yield made
        made.play("playbooks/slurm", "-estate=absent")
    finally:
        # It fails when anything of the nodes is left.
        rehearse(inventory, "-estate=absent")
