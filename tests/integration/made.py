"""A testbed of one host that is nowhere yet, made by the rehearsal as a provider."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.conftest import playbook

HOST = "node1"


@dataclass(frozen=True)
class Made:
    """`inventory` is its folder, `lab` the name of the lab that its node is of."""

    inventory: Path
    lab: str

    def instance(self) -> str:
        """The node that is there now; '' for none."""
        return docker("ps", "-aq", f"--filter=label=strata.rehearsal={self.lab}")


def docker(*command: str) -> str:
    done = subprocess.run(["docker", *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextlib.contextmanager
def offline(subnet: str) -> Iterator[None]:
    """Nodes reach nobody but this machine, and each other."""
    rule = ["DOCKER-USER", "--source", f"{subnet}.0/24", "--jump", "DROP"]
    subprocess.run(["iptables", "--insert", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "--delete", *rule], check=True)


@contextlib.contextmanager
def testbed(folder: Path, lab: str, subnet: str) -> Iterator[Made]:
    """Its inventory in `folder`; `subnet` begins its addresses. The node goes at the end."""
    settings = {"rehearsal_lab": lab, "rehearsal_subnet": f"{subnet}.0/24"}
    made = {
        "hosts": {HOST: {"strata_address": f"{subnet}.11"}},
        "vars": {**settings, "strata_provider": "rehearsal", "rehearsal_rate": "none"},
    }
    write(folder, made)
    try:
        yield Made(folder, lab)
    finally:
        given = [f"-e{name}={value}" for name, value in settings.items()]
        given += [f"-erehearsal_inventory={folder}/none", "-estate=absent"]
        playbook("playbooks/rehearse.yml", *given)


def write(folder: Path, nodes: dict[str, object]) -> None:
    """An inventory of these nodes, on which programs run natively."""
    groups = {
        "testbed": {"children": {"native": {"children": {"nodes": nodes}}}},
        "bare_metal": {"children": {"nodes": {}}},
    }
    folder.mkdir(exist_ok=True)
    (folder / "hosts.yml").write_text(yaml.safe_dump(groups))
