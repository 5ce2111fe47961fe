"""Hosts that provision makes on a libvirt host: refused, made, measured, killed, taken away.

libvirt and QEMU are real; QEMU interprets the machines.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.integration.lab import folder, lived_and_ended, records

from .testbed import SLICE, SPIN, Testbed, virsh, write

pytestmark = [pytest.mark.root, pytest.mark.image]

HOSTS = {"vm1": {}, "vm2": {"libvirt_cpus": [1]}}


def test_what_cannot_be_had_is_refused_before_anything_is_made(
    testbed: Testbed, tmp_path: Path
) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/file").write_text("somebody's")
    for settings, words in (
        ({"libvirt_network": "defalt"}, "did you mean 'default'"),
        ({"libvirt_memory": 2_000_000}, "has the memory of its machines"),
        ({"libvirt_vcpus": 999}, "a CPU for each virtual one"),
        ({"libvirt_cpus": [999]}, "has no [999]"),
        ({"libvirt_device": "0000:ff:1f.7"}, "which is not there"),
        # On a PC it leads to all others.
        ({"libvirt_device": "0000:00:00.0"}, "can be taken from the libvirt host"),
        ({"libvirt_uri": "qemu:///sistem"}, "libvirt answers on the libvirt host"),
        ({"libvirt_python": sys.executable}, "the bindings for Python"),
        ({"libvirt_folder": str(tmp_path / "foreign")}, "folder of virtual machines must be"),
    ):
        write(testbed.inventory, {"vm1": {}}, **settings)
        assert words in testbed.on("playbooks/preflight", *SPIN, check=False)
    write(testbed.inventory, {"vm1": {}, "vm2": {}}, libvirt_cpus=[1])
    said = testbed.on("playbooks/preflight", *SPIN, check=False)
    assert "vm2: libvirt_cpus has 1, which vm1 has" in said
    assert testbed.left() == {}


def test_hosts_are_made_measured_and_taken_away(testbed: Testbed, tmp_path: Path) -> None:
    results, book = tmp_path / "results", testbed.ledger
    names = {host: f"strata-{book.testbed}-{host}" for host in HOSTS}
    running = dict.fromkeys(names.values(), "running")
    write(testbed.inventory, HOSTS)
    said = testbed.on("site", "--tags=provision", "--check", *SPIN, check=False)
    assert "vm1, vm2 would be made" in said, said[-6000:]
    assert testbed.left() == {}

    # Killed when the first of them is there, and has not been started.
    making = testbed.begin("spin", results, SLICE)
    making.until(testbed.machines, "a machine")
    making.kill()
    assert set(book.hosts()) == set(HOSTS), "what may be there was noted before"

    testbed.on("site", *SPIN, f"-estrata_results={results}")
    assert testbed.machines() == running
    assert virsh("vcpupin", names["vm2"]).split() == ["0", "1"]
    found = records(results).values()
    assert {record["status"] for record in found} == {"ok"}
    assert {record["platform"].split("/")[0] for record in found} == {"vm"}
    run = folder(results)
    assert run
    for host in HOSTS:
        values = json.loads((run / f"hosts/{host}.json").read_text())["values"]
        assert (values["virtualisation"], values["accelerator"]) == ("qemu-tcg", "tcg")
        assert values["kernel.cmdline"] == "highres=off"
    assert "QEMU emulates the CPU of vm1, vm2" in (run / "report/index.html").read_text()

    for more in ([], ["--check"]):
        said = testbed.on("site", "--tags=provision", *SPIN, *more)
        recaps = [line for line in said.splitlines() if line.startswith(("vm1 ", "vm2 "))]
        assert len(recaps) == 2
        assert all("changed=0" in line for line in recaps), said[-6000:]

    write(testbed.inventory, {**HOSTS, "vm1": {"libvirt_memory": 1024}})
    said = testbed.on("playbooks/preflight", *SPIN, check=False)
    assert "a machine that is there is what the inventory asks" in said
    write(testbed.inventory, HOSTS, libvirt_uri="qemu:///session")
    assert "qemu:///system" in testbed.on("playbooks/teardown", "--limit=testbed", check=False)

    # Switched off, and removed, by somebody else.
    write(testbed.inventory, HOSTS)
    before = {host: made["instance"] for host, made in book.hosts().items()}
    for name in names.values():
        virsh("destroy", name)
    virsh("undefine", names["vm2"])
    said = testbed.on("site", "--tags=provision", *SPIN)
    after = {host: made["instance"] for host, made in book.hosts().items()}
    assert testbed.machines() == running
    assert after["vm1"] == before["vm1"], "it was switched on"
    assert f"vm2 is another instance: {after['vm2']}, was {before['vm2']}" in said

    # What no ledger knows bears the testbed's name.
    stray = tmp_path / "stray.xml"
    stray.write_text(
        f"<domain type='qemu'><name>strata-{book.testbed}-stray</name><memory>65536</memory>"
        "<os><type arch='x86_64'>hvm</type></os></domain>"
    )
    virsh("define", str(stray))
    testbed.on("playbooks/teardown", "--limit=testbed", f"-estrata_results={results}")
    lived_and_ended(run, ["vm1"])
    assert testbed.left() == {}
