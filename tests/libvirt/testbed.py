"""A testbed whose hosts are machines of this machine's libvirt, and what tests look at there."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller import ledger
from tests.conftest import EXPERIMENTS, REPO, environment
from tests.integration.lab import PATIENCE_S, Lab

FOLDER = Path("/var/lib/strata-libvirt")
SLICE = "-estrata_slice=native"
SPIN = (f"-estrata_experiment={EXPERIMENTS}/spin.yml", SLICE)


def virsh(*command: str, check: bool = True) -> str:
    """What libvirt says."""
    asked = ["virsh", "-q", "-c", "qemu:///system", *command]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def write(inventory: Path, hosts: dict[str, Any], **settings: Any) -> None:
    """Hosts that are nowhere yet."""
    given = {
        # Interpreted, and on a machine that has other things to do.
        **{"strata_provider": "libvirt", "libvirt_host": "hypervisor"},
        "libvirt_accelerator": "tcg",
        "libvirt_kernel_arguments": "highres=off",
        **{"libvirt_memory": 768, "libvirt_patience": PATIENCE_S, **settings},
    }
    groups = {
        "testbed": {"children": {"native": {"hosts": hosts, "vars": given}}},
        "vm": {"hosts": dict.fromkeys(hosts)},
        # This machine by another name than the controller's.
        "hypervisors": {"hosts": {"hypervisor": {"ansible_connection": "local"}}},
    }
    (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))


@dataclass
class Testbed(Lab):
    """Hosts on libvirt."""

    __test__ = False

    def on(self, name: str, *given: str, check: bool = True) -> str:
        """A playbook on the testbed; what it says."""
        began = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", f"{name}.yml", "-i", str(self.inventory), *given],
            **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
            check=False,
        )
        print(f"\n{name}.yml {' '.join(given)}: {time.monotonic() - began:.0f} s")
        said = done.stdout + done.stderr
        assert "Traceback" not in said and "PRIVATE KEY" not in said, said[-6000:]
        assert (done.returncode == 0) is check, said[-6000:]
        return said

    def machines(self) -> dict[str, str]:
        """State by name, as libvirt says."""
        rows = [line.split(maxsplit=2) for line in virsh("list", "--all").splitlines()]
        return {name: state for _, name, state in rows}

    def left(self) -> dict[str, Any]:
        """What there is of any testbed."""
        own = REPO / ".cache/libvirt"
        kinds = {
            "machines": self.machines(),
            "pools": virsh("pool-list", "--all", "--name").split(),
            "folders": [str(path) for path in (FOLDER, own) if path.exists()],
            "ledger": self.ledger.hosts(),
        }
        return {kind: found for kind, found in kinds.items() if found}

    @property
    def ledger(self) -> ledger.Ledger:
        return ledger.Ledger(REPO / ".cache", ledger.testbed([str(self.inventory)]))
