"""A libvirt host of its own for the tests of this folder: its daemons, and a network with DHCP.

It keeps its machines under /etc and /var/lib, so that it is begun only where the test has these for
itself, as `./run-tests libvirt` gives them.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, REPO, environment

from .testbed import Testbed, virsh, write

PACKAGES = [
    *("dnsmasq-base", "libvirt-clients", "libvirt-daemon-driver-qemu", "libvirt-daemon-system"),
    *("python3-libvirt", "python3-lxml", "qemu-system-x86", "qemu-utils"),
]
OWN = [Path(folder, "libvirt") for folder in ("/etc", "/var/cache", "/var/lib", "/var/log")]
NETWORK = """<network>
  <name>default</name>
  <forward mode='nat'/>
  <bridge name='virbr0'/>
  <ip address='192.168.122.1' netmask='255.255.255.0'>
    <dhcp><range start='192.168.122.2' end='192.168.122.254'/></dhcp>
  </ip>
</network>"""


def install() -> None:
    """The distribution's packages, none of whose services is started."""
    asked = f"name={','.join(PACKAGES)} install_recommends=no policy_rc_d=101 update_cache=yes"
    subprocess.run(
        ["ansible", "localhost", "-m", "ansible.builtin.apt", "-a", asked],
        **{"cwd": REPO, "env": environment()},
        check=True,
    )


def until_it_answers() -> None:
    deadline = time.monotonic() + PATIENCE_S
    while subprocess.run(["virsh", "-q", "uri"], capture_output=True, check=False).returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="session")
def hypervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if os.geteuid() != 0 or "STRATA_MACHINE" not in os.environ:
        pytest.skip("needs root and a machine of its own: ./run-tests libvirt")
    install()
    for folder in OWN:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder], check=True)
    network = tmp_path_factory.mktemp("libvirt") / "network.xml"
    network.write_text(NETWORK)
    daemons = []
    try:
        for name in ("virtlogd", "libvirtd"):
            with (network.parent / f"{name}.log").open("wb") as log:
                daemons.append(subprocess.Popen([name], stdout=log, stderr=log))
        until_it_answers()
        virsh("net-define", str(network))
        virsh("net-start", "default")
        yield
    finally:
        virsh("net-destroy", "default", check=False)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(PATIENCE_S)
        for folder in OWN:
            subprocess.run(["umount", "--lazy", folder], check=False)


@pytest.fixture
def testbed(hypervisor: None, tmp_path: Path) -> Iterator[Testbed]:
    inventory = tmp_path / "testbed"
    inventory.mkdir()
    write(inventory, {"vm1": {}})
    made = Testbed(inventory, [], {})
    try:
        yield made
    finally:
        # It fails when anything of the testbed is left, whatever hosts the inventory has by now.
        write(inventory, {"vm1": {}})
        made.on("playbooks/teardown", "--limit=testbed")
