"""What a host says of itself, from recorded text and from a Docker engine of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from strata.host import facts

# /proc/meminfo of a Firecracker guest, Linux 6.18.
MEMINFO = """\
MemTotal:       24682416 kB
MemFree:        17532644 kB
MemAvailable:   23765904 kB
SwapTotal:             0 kB
HugePages_Total:       0
Hugepagesize:       2048 kB
"""
GUEST = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse2 hypervisor lahf_lm\n"
METAL = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu sse2 lahf_lm\n"
ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes\n"
FIRST = facts.FIRST_PID_NAMESPACE


def test_memory_is_in_bytes() -> None:
    found = facts.meminfo(MEMINFO)
    assert found["MemTotal"] == 24682416 * 1024
    assert found["SwapTotal"] == 0
    assert "HugePages_Total" not in found


@pytest.mark.parametrize(
    ("cpuinfo", "dmi", "clocks", "kind"),
    [
        (METAL, "Dell Inc.PowerEdge R650", "tsc hpet acpi_pm", "none"),
        (GUEST, "", "tsc kvm-clock", "kvm"),  # Firecracker has no firmware tables
        (GUEST, "QEMUStandard PC (Q35 + ICH9, 2009)", "kvm-clock tsc hpet acpi_pm", "kvm"),
        (GUEST, "QEMUStandard PC (Q35 + ICH9, 2009)", "tsc hpet acpi_pm", "qemu-tcg"),
        # OpenStack's own name is in place of QEMU's, but not as the maker of the chassis.
        (GUEST, "OpenStack FoundationOpenStack NovaSeaBIOSQEMU", "tsc hpet acpi_pm", "qemu-tcg"),
        (GUEST, "OpenStack FoundationOpenStack NovaSeaBIOSQEMU", "kvm-clock tsc", "kvm"),
        (GUEST, "Amazon EC2c6i.large", "kvm-clock tsc", "kvm"),
        (GUEST, "Microsoft CorporationVirtual Machine", "hyperv_clocksource_tsc_page", "hyperv"),
        (GUEST, "VMware, Inc.VMware7,1", "tsc hpet acpi_pm", "vmware"),
        (GUEST, "XenHVM domU", "xen tsc", "xen"),
        (GUEST, "innotek GmbHVirtualBox", "kvm-clock tsc", "virtualbox"),
        (GUEST, "", "tsc", "hypervisor"),
        (ARM, "", "arch_sys_counter", "none"),
        (ARM, "QEMUvirt-7.2", "arch_sys_counter", "qemu-tcg"),
    ],
)
def test_kind_of_machine(cpuinfo: str, dmi: str, clocks: str, kind: str) -> None:
    found = facts.virtualised(container=False, cpuinfo=cpuinfo, dmi=dmi, clocks=clocks)
    assert found == kind
    assert facts.virtualised(container=True, cpuinfo=cpuinfo, dmi=dmi, clocks="") == "container"


@pytest.mark.parametrize(
    ("dockerenv", "environ", "namespace", "inside"),
    [
        (False, "HOME=/\0TERM=linux\0", FIRST, False),
        (True, "", FIRST, False),  # a microVM whose root was made from an image
        (True, "", "pid:[4026532201]", True),
        (True, "", "", True),
        (False, "", "", False),
        (False, "TERM=xterm\0container=podman\0", FIRST, True),
        (False, "MY_container=1\0", FIRST, False),
    ],
)
def test_inside_a_container(dockerenv: bool, environ: str, namespace: str, inside: bool) -> None:
    found = facts.in_container(dockerenv=dockerenv, environ=environ, namespace=namespace)
    assert found is inside


def test_the_nearest_parent_that_is_there(tmp_path: Path) -> None:
    assert facts.existing(tmp_path / "a/b/c") == tmp_path
    assert facts.existing(Path("not/there")) == Path.cwd()


def test_one_probe_gives_all(tmp_path: Path) -> None:
    found = facts.probe(tmp_path / "state")
    assert set(found) == {
        "root", "cpu", "cpu_ids", "cores", "numa_nodes", "memory_total", "memory_available",
        "state_dir", "disk_free", "images", "service_manager", "distribution", "gpu",
        "virtualisation", "lease", "machine", "python", "address", "networks",
    }  # fmt: skip
    assert found["root"] is (os.geteuid() == 0)
    assert 0 < found["memory_available"] <= found["memory_total"]
    assert set(found["cpu_ids"]) == os.sched_getaffinity(0)
    assert found["gpu"]["ids"] == [] or found["gpu"]["present"]
    assert not (tmp_path / "state").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to make a namespace")
def test_a_machine_is_told_from_its_containers() -> None:
    look = "from strata.host import facts; print(facts.machine())"
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    seen = [
        subprocess.run([*how, sys.executable, "-c", look], capture_output=True, check=True).stdout
        for how in ([], [], apart)
    ]
    assert seen[0] == seen[1] == f"{facts.machine()}\n".encode()
    assert seen[2] != seen[0]


@pytest.mark.parametrize(("text", "nodes"), [("0\n", [0]), ("0-1,3\n", [0, 1, 3]), (None, [0])])
def test_numa_nodes_are_those_with_memory(
    tmp_path: Path, text: str | None, nodes: list[int]
) -> None:
    if text is not None:
        (tmp_path / "has_memory").write_text(text)
    assert facts.numa_nodes(tmp_path) == nodes


def test_images_are_named(tmp_path: Path) -> None:
    (tmp_path / "images/abc").mkdir(parents=True)
    assert facts.probe(tmp_path)["images"] == []
    (tmp_path / "images/abc/known.json").touch()
    assert facts.probe(tmp_path)["images"] == ["abc"]


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert facts.read_text(tmp_path / "none") == ""
    assert facts.read_text(tmp_path) == ""
