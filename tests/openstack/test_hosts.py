"""The rehearsal cloud, and hosts that are made on it: the real services, no mock anywhere.

Its figures of time are printed: nothing is measured by them.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller import ledger
from tests.conftest import EXPERIMENTS, REPO, changed, environment, playbook
from tests.integration.lab import Lab, records

pytestmark = [pytest.mark.root, pytest.mark.image, pytest.mark.lab]

FOLDER = Path("/var/lib/strata-openstack")
DEVICE = {"alias": "simulated", "vendor_id": "8086", "product_id": "25ab"}
CLOUD = {"OS_CLOUD": "strata-rehearsal", "OS_CLIENT_CONFIG_FILE": str(FOLDER / "clouds.yaml")}


def rehearse(*given: str, check: bool = True) -> str:
    began = time.monotonic()
    done = playbook("playbooks/rehearse.yml", "-ecloud=openstack", *given, check=check)
    print(f"\nrehearse.yml {' '.join(given)}: {time.monotonic() - began:.0f} s")
    if FOLDER.exists():
        assert secret() not in done.stdout + done.stderr
    return done.stdout


def secret() -> str:
    """The administrator's password, which nothing may say."""
    clouds = yaml.safe_load((FOLDER / "clouds.yaml").read_text())["clouds"]
    return str(clouds["strata-rehearsal"]["auth"]["password"])


@pytest.fixture(scope="module")
def cloud() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the cloud's services are installed")
    try:
        rehearse()
        yield
    finally:
        # It fails when anything of the cloud is left.
        rehearse("-estate=absent")


def write(inventory: Path, hosts: dict[str, Any], **settings: Any) -> None:
    """Hosts that are nowhere yet."""
    given = {
        **{"strata_provider": "openstack", "openstack_cloud": "strata-rehearsal"},
        **{"openstack_clouds": str(FOLDER / "clouds.yaml"), "openstack_network": "guests"},
        **{"openstack_memory": 768, **settings},
    }
    groups = {
        "testbed": {"children": {"native": {"hosts": hosts, "vars": given}}},
        "vm": {"hosts": dict.fromkeys(hosts)},
    }
    (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))


@pytest.fixture
def testbed(cloud: None, tmp_path: Path) -> Iterator[Lab]:
    inventory = tmp_path / "testbed"
    inventory.mkdir()
    write(inventory, {"vm1": {}, "vm2": {"openstack_device": DEVICE}})
    made = Lab(inventory, ["vm1", "vm2"], {})
    try:
        yield made
    finally:
        on(made, "teardown", "--limit=testbed")


def on(testbed: Lab, name: str, *given: str, check: bool = True) -> str:
    """A playbook on the testbed; what it says."""
    began = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", f"playbooks/{name}.yml", "-i", str(testbed.inventory), *given],
        **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
        check=False,
    )
    print(f"\n{name}.yml: {time.monotonic() - began:.0f} s")
    said = done.stdout + done.stderr
    assert secret() not in said and "Traceback" not in said
    assert (done.returncode == 0) is check, said[-4000:]
    return said


def servers() -> dict[str, str]:
    """Status by name, as the cloud says."""
    script = (
        "import json, openstack; "
        "print(json.dumps({s.name: s.status for s in openstack.connect().compute.servers()}))"
    )
    python = str(REPO / ".venv/bin/python")
    done = subprocess.run(
        [python, "-c", script],
        env={**os.environ, **CLOUD},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_cloud_that_is_there_is_not_changed(cloud: None) -> None:
    assert changed(rehearse()) == 0
    assert changed(rehearse("--check")) == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"openstack_network": "gests"}, "did you mean 'guests'"),
        ({"openstack_memory": 2_000_000}, "within the project's quota"),
        ({"openstack_image": "none"}, "sees no image at all"),
        ({"openstack_flavor": "none"}, "sees no flavor at all"),
        ({"openstack_cloud": "none"}, "clouds.yaml describes the cloud by its name"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_is_made(
    testbed: Lab, settings: dict[str, Any], words: str
) -> None:
    write(testbed.inventory, {"vm1": {}}, **settings)
    said = on(testbed, "preflight", f"-estrata_experiment={EXPERIMENTS}/spin.yml", check=False)
    write(testbed.inventory, {"vm1": {}})
    assert words in said and servers() == {}


def test_machines_are_made_measured_and_taken_away(
    deployed: None, testbed: Lab, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    book = ledger.Ledger(REPO / ".cache", ledger.testbed([str(testbed.inventory)]))
    making = testbed.begin("spin", results, "-estrata_slice=native")
    making.until(servers, "a server")
    making.kill()
    assert set(book.hosts()) == {"vm1", "vm2"}, "what may be there was noted before"

    testbed.site("spin", results, "-estrata_slice=native")
    found = records(results).values()
    assert {record["status"] for record in found} == {"ok"}
    assert {record["platform"].split("/")[0] for record in found} == {"vm"}
    names = {f"strata-{book.testbed}-{host}" for host in ("vm1", "vm2")}
    assert servers() == dict.fromkeys(names, "ACTIVE")

    asked = f"-estrata_experiment={EXPERIMENTS}/spin.yml"
    provisioned = ["site.yml", "-i", str(testbed.inventory), "--tags=provision", asked]
    again = subprocess.run(
        ["ansible-playbook", *provisioned],
        **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
        check=True,
    )
    assert "changed=0" in next(line for line in again.stdout.splitlines() if "vm1 " in line)

    # Two devices are there, and one of them is taken.
    more = {"vm3": {"openstack_device": {**DEVICE, "count": 2}}}
    write(testbed.inventory, {"vm1": {}, "vm2": {"openstack_device": DEVICE}, **more})
    said = on(testbed, "../site", "--tags=provision", asked, check=False)
    assert "a host of the cloud has room for what the server asks" in said
    more = {"vm3": {"openstack_device": {**DEVICE, "alias": "unknown"}}}
    write(testbed.inventory, {"vm1": {}, "vm2": {"openstack_device": DEVICE}, **more})
    said = on(testbed, "../site", "--tags=provision", asked, check=False)
    assert "the cloud has a PCI alias of that name" in said

    on(testbed, "teardown", "--limit=testbed")
    assert servers() == {} and book.hosts() == {}
