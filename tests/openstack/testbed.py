"""A testbed whose hosts are made on the rehearsal cloud, and what of the cloud tests look at."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openstack
import yaml
from keystoneauth1 import exceptions as auth
from openstack import exceptions

from controller import ledger
from tests.conftest import EXPERIMENTS, REPO, environment
from tests.integration.lab import PATIENCE_S, Lab

FOLDER = Path("/var/lib/strata-openstack")
CLOUDS, CLOUD = FOLDER / "clouds.yaml", "strata-rehearsal"
BMC, BMC2, IPMI = (FOLDER / f"{name}.yaml" for name in ("bmc", "bmc2", "ipmi"))
# Between two looks at the cloud while something else runs: it answers on the same processors.
EVERY_S = 1.0
WRONG = "not-the-one"
SLICE = "-estrata_slice=native"
SPIN = (f"-estrata_experiment={EXPERIMENTS}/spin.yml", SLICE)


def secrets() -> list[str]:
    """The passwords of the administrator and of the BMCs, which nothing may say."""
    clouds = yaml.safe_load(CLOUDS.read_text())
    told = [yaml.safe_load(path.read_text())["driver_info"] for path in (BMC, IPMI)]
    return [
        clouds["clouds"][CLOUD]["auth"]["password"],
        *(info[key] for info in told for key in info if key.endswith("password")),
    ]


def write(inventory: Path, hosts: dict[str, Any], substrate: str = "vm", **settings: Any) -> None:
    """Hosts that are nowhere yet."""
    given = {
        **{"strata_provider": "openstack", "openstack_cloud": CLOUD},
        **{"openstack_clouds": str(CLOUDS), "openstack_network": "guests"},
        # Emulated, and on a machine that has other things to do.
        **{"openstack_memory": 768, "openstack_patience": PATIENCE_S},
        **{"openstack_kernel_arguments": "highres=off", **settings},
    }
    groups = {
        "testbed": {"children": {"native": {"hosts": hosts, "vars": given}}},
        substrate: {"hosts": dict.fromkeys(hosts)},
    }
    (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))


@dataclass
class Testbed(Lab):
    """Hosts on the cloud."""

    cloud: openstack.connection.Connection
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
        assert "Traceback" not in said and not any(secret in said for secret in secrets())
        assert (done.returncode == 0) is check, said[-6000:]
        return said

    def refuses(
        self,
        hosts: dict[str, tuple[dict[str, Any], str]],
        substrate: str = "vm",
        **settings: Any,
    ) -> None:
        """See that the provider refuses each of these hosts, asked alone, with the words given.

        What is `WRONG` about one may be its password, and is not said.
        """
        folder = self.inventory.parent / "refusals"
        folder.mkdir()
        write(
            self.inventory, {name: host for name, (host, _) in hosts.items()}, substrate, **settings
        )
        self.on("tests/data/playbooks/refusals", f"-erefusals={folder}")
        said = {path.name: path.read_text() for path in folder.iterdir()}
        shutil.rmtree(folder)
        assert said.keys() == hosts.keys()
        assert not {
            name: said[name] for name, (_, words) in hosts.items() if words not in said[name]
        }
        assert not [name for name in said if WRONG in said[name]]

    def servers(self) -> dict[str, str]:
        """Status by name, as the cloud says."""
        return {server.name: server.status for server in self.cloud.compute.servers()}

    def deleted(self, name: str) -> None:
        """Delete a server as somebody else would."""
        server = self.cloud.compute.find_server(name)
        self.cloud.compute.delete_server(server)
        self.cloud.compute.wait_for_delete(server)

    def node_states(self) -> dict[str, str]:
        """State by name of bare metal that was enrolled for a testbed, as the cloud says."""
        nodes = self.cloud.baremetal.nodes(details=True)
        ours = (node for node in nodes if node.name.startswith("strata-"))
        return {node.name: node.provision_state for node in ours}

    def until_it_answers(self) -> None:
        """Wait until a service that was started again is there."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.servers()
                return
            except (exceptions.SDKException, auth.ClientException):
                assert time.monotonic() < deadline
                time.sleep(1)

    def until_none_waits(self) -> None:
        """Wait until the modules of a command that was killed have ended with it."""
        deadline = time.monotonic() + 60
        while waiting := _waiting():
            assert time.monotonic() < deadline, f"they outlive their command: {waiting}"
            time.sleep(0.5)

    @property
    def ledger(self) -> ledger.Ledger:
        return ledger.Ledger(REPO / ".cache", ledger.testbed([str(self.inventory)]))


def _waiting() -> list[int]:
    """The modules that talk to the cloud: they are told which it is, and are no part of it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (process / "environ").read_bytes()
            is_module = (process / "comm").read_text().startswith("python")
            if is_module and b"OS_CLOUD=" in told and b"STRATA_CLOUD=" not in told:
                found.append(int(process.name))
    return found


def supervise(*command: str) -> str:
    """Tell what watches over the services of the cloud; what it says."""
    given = ["supervisorctl", "-c", str(FOLDER / "etc/supervisord.conf"), *command]
    return subprocess.run(given, stdout=subprocess.PIPE, text=True, check=True).stdout


def pids() -> dict[str, str]:
    """The process of each service that runs, by its name."""
    # cloud:nova-api   RUNNING   pid 4711, uptime 0:01:02
    lines = map(str.split, supervise("status").splitlines())
    return {line[0]: line[3].rstrip(",") for line in lines if line[1] == "RUNNING"}
