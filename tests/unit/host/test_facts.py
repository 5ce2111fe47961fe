"""What a host says of itself, from recorded text and from a Docker engine of our own."""

from __future__ import annotations

import http.server
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from strata.host import facts
from strata.runtimes.docker import engine as docker_engine

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


@pytest.mark.parametrize(
    ("installed", "running", "socket", "root", "apt", "why_not"),
    [
        (True, True, True, False, False, ""),
        (True, False, False, True, False, ""),
        (False, False, False, True, True, ""),
        (False, False, False, True, False, "no apt"),
        (True, False, True, False, True, "may not use its socket"),
        (True, False, False, False, True, "does not run"),
        (False, False, False, False, True, "not installed, and without root"),
    ],
)
def test_why_docker_cannot_be_had(
    installed: bool, running: bool, socket: bool, root: bool, apt: bool, why_not: str
) -> None:
    found = docker_engine.why_no_docker(
        installed=installed, running=running, socket=socket, root=root, apt=apt
    )
    assert why_not in found
    assert bool(found) is bool(why_not)


class Engine(http.server.BaseHTTPRequestHandler):
    """As much of Docker's interface as is asked."""

    answers: dict[str, bytes] = {}  # noqa: RUF012 - set by each test, on a class of its own

    def do_GET(self) -> None:
        text = self.answers.get(self.path)
        self.send_response(404 if text is None else 200)
        self.send_header("Content-Length", str(len(text or b"")))
        self.end_headers()
        if text:  # who expects nothing more may have gone
            self.wfile.write(text)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    answers: dict[str, bytes] = {}
    at = str(tmp_path / "docker.sock")
    handler = type("Here", (Engine,), {"answers": answers})
    with socketserver.ThreadingUnixStreamServer(at, handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield at, answers
        server.shutdown()
        thread.join()


def test_an_engine_that_answers_runs(engine: tuple[str, dict[str, bytes]]) -> None:
    at, answers = engine
    answers |= {"/_ping": b"OK", "/version": b'{"Version": "20.10.24+dfsg1"}'}
    found = docker_engine.docker(at)
    assert set(found) == {"installed", "running", "sdk", "version", "why_not"}
    assert found["running"] and found["version"] == "20.10.24+dfsg1"
    assert found["why_not"] == ""


@pytest.mark.parametrize("ping", [None, b"starting"])
def test_an_engine_that_is_not_well_does_not_run(
    engine: tuple[str, dict[str, bytes]], ping: bytes | None
) -> None:
    at, answers = engine
    answers |= {} if ping is None else {"/_ping": ping}
    found = docker_engine.docker(at)
    assert not found["running"] and found["version"] == ""


def test_answers_that_are_no_object_are_an_error(engine: tuple[str, dict[str, bytes]]) -> None:
    at, answers = engine
    answers |= {"/info": b"[]"}
    with pytest.raises(ValueError, match="no object"):
        docker_engine.docker_get("/info", at)
    with pytest.raises(OSError, match="404"):
        docker_engine.docker_get("/nothing", at)


def test_without_a_socket_it_does_not_run(tmp_path: Path) -> None:
    assert not docker_engine.docker(str(tmp_path / "none.sock"))["running"]


def test_the_nearest_parent_that_is_there(tmp_path: Path) -> None:
    assert facts.existing(tmp_path / "a/b/c") == tmp_path
    assert facts.existing(Path("not/there")) == Path.cwd()


def test_one_look_gives_all(tmp_path: Path) -> None:
    found = facts.look(tmp_path / "state")
    assert set(found) == {
        "root", "cpu_ids", "numa_nodes", "memory_total", "memory_available", "state_dir",
        "disk_free", "images", "docker", "service_manager", "distribution", "gpu",
        "virtualisation", "lease", "machine", "python", "address",
    }  # fmt: skip
    assert found["root"] is (os.geteuid() == 0)
    assert 0 < found["memory_available"] <= found["memory_total"]
    assert set(found["cpu_ids"]) == os.sched_getaffinity(0)
    assert found["gpu"]["ids"] == [] or found["gpu"]["present"]
    assert not (tmp_path / "state").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to make a namespace")
def test_a_machine_is_told_from_its_containers() -> None:
    look = "from strata import host; print(host.machine())"
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
    assert facts.look(tmp_path)["images"] == []
    (tmp_path / "images/abc/known.json").touch()
    assert facts.look(tmp_path)["images"] == ["abc"]


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert facts.read_text(tmp_path / "none") == ""
    assert facts.read_text(tmp_path) == ""
