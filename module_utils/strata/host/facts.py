"""What a host is and has, as far as a plan needs to know. Reads only."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import socket
from pathlib import Path
from typing import Any

from ..identity import digest
from . import agent, cpus, gpu, lease, owned

ELSEWHERE = "192.0.2.1"  # of a range that is for documentation (RFC 5737): anywhere but here
# A login shell of an ordinary account often lacks these.
PROGRAMS = ":".join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
NODES = Path("/sys/devices/system/node")
CLOCKS = "/sys/devices/system/clocksource/clocksource0"
FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel
# Words in the maker or product that the firmware shows, and what they mean. In this order:
# clouds on KVM show both their own name and QEMU's.
MAKERS = {
    "vmware": "vmware",
    "innotek": "virtualbox",
    "virtualbox": "virtualbox",
    "microsoft": "hyperv",
    "xen": "xen",
    "amazon": "kvm",
    "google": "kvm",
    "firecracker": "kvm",
    "kvm": "kvm",
    "qemu": "qemu-tcg",
}


def probe(state_dir: Path) -> dict[str, Any]:
    """Everything preflight asks of a host; sizes in bytes."""
    memory = meminfo(Path("/proc/meminfo").read_text())
    pod = agent.here()
    return {
        "root": os.geteuid() == 0,
        "cpu": {"machine": platform.machine(), "flags": cpus.flags(read_text("/proc/cpuinfo"))},
        "cpu_ids": sorted(os.sched_getaffinity(0)),
        "cores": cpus.cores(),
        "numa_nodes": numa_nodes(),
        "memory_total": memory["MemTotal"],
        "memory_available": memory["MemAvailable"],
        "state_dir": owned.Folder(state_dir, "state").describe(),
        "disk_free": shutil.disk_usage(existing(state_dir)).free,
        "images": sorted(path.parent.name for path in (state_dir / "images").glob("*/known.json")),
        "service_manager": service_manager(),
        "distribution": distribution(),
        "gpu": {"present": gpu.present(), "toolkit": has("nvidia-ctk"), "ids": gpu.ids()},
        "virtualisation": virtualisation(),
        "lease": lease.current() or {},
        "machine": machine(),
        "python": platform.python_version(),
        "address": pod.address if pod else address(),
        "networks": pod and list(pod.networks),
    }


def machine() -> str:
    """Tells this running machine from every other, containers of one kernel included.

    Names in an inventory that lead to one host have one value. Ids in files may be cloned.
    """
    boot = read_text("/proc/sys/kernel/random/boot_id")
    return digest([boot, _link("/proc/self/ns/pid"), address()])[:12]


def address() -> str:
    """The IPv4 address from which this host reaches others; '' without a route."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            # Connecting a datagram socket looks the route up and sends nothing.
            probe.connect((ELSEWHERE, 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def meminfo(text: str) -> dict[str, int]:
    """Bytes of each line of /proc/meminfo (those without a unit, counts of pages, are left out)."""
    found = re.findall(r"^(\S+):\s+(\d+) kB$", text, re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in found}


def numa_nodes(folder: Path = NODES) -> list[int]:
    """The NUMA nodes that have memory; node 0 is all there is where the kernel knows of none."""
    found = re.findall(r"(\d+)(?:-(\d+))?", read_text(folder / "has_memory"))
    return [n for a, b in found for n in range(int(a), int(b or a) + 1)] or [0]


def service_manager() -> str:
    """`systemd`, `sysvinit` (init scripts), or `none`."""
    if Path("/run/systemd/system").is_dir():
        return "systemd"
    return "sysvinit" if has("service") else "none"


def distribution() -> dict[str, str]:
    """`id` and `version` of /etc/os-release, '' where it says nothing."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return {"id": "", "version": ""}
    return {"id": release.get("ID", ""), "version": release.get("VERSION_ID", "")}


def virtualisation() -> str:
    """`none`, `container`, `kvm`, `qemu-tcg`, `xen`, … or `hypervisor`, one without a name."""
    dmi = "".join(
        read_text(f"/sys/class/dmi/id/{name}")
        for name in ("sys_vendor", "product_name", "bios_vendor", "chassis_vendor")
    )
    return virtualised(
        container=in_container(
            dockerenv=Path("/.dockerenv").exists(),
            environ=read_text("/proc/1/environ"),
            namespace=_link("/proc/self/ns/pid"),
        ),
        cpuinfo=read_text("/proc/cpuinfo"),
        dmi=dmi,
        clocks=read_text(f"{CLOCKS}/available_clocksource"),
    )


def in_container(*, dockerenv: bool, environ: str, namespace: str) -> bool:
    """Whether this is a container, as far as it tells.

    A virtual machine whose root file system was made from an image has the engine's mark file
    too; but it runs in the kernel's first process namespace, whose number is fixed.
    """
    if any(word.startswith("container=") for word in environ.split("\0")):
        return True
    return namespace != FIRST_PID_NAMESPACE if namespace else dockerenv


def virtualised(*, container: bool, cpuinfo: str, dmi: str, clocks: str) -> str:
    """The kind of machine from /proc/cpuinfo, the firmware's names and the kernel's clocks.

    KVM without firmware tables (microVMs) still offers its clock; QEMU without KVM never does.
    """
    if container:
        return "container"
    name = _maker(dmi)
    if "kvm-clock" in clocks.split():
        return "kvm" if name in {"", "qemu-tcg"} else name
    flags = re.search(r"^flags\s*:(.*)", cpuinfo, re.MULTILINE)
    if flags is None:  # ARM has no flag for it: there only the firmware tells
        return name or "none"
    return (name or "hypervisor") if "hypervisor" in flags[1].split() else "none"


def _maker(dmi: str) -> str:
    return next((name for word, name in MAKERS.items() if word in dmi.lower()), "")


def has(program: str) -> bool:
    """Whether a program is there, also where only root's path has it."""
    return shutil.which(program, path=PROGRAMS) is not None


def read_text(path: str | Path) -> str:
    """Contents of a file without the white space around them, '' where it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def existing(path: Path) -> Path:
    """The path or its nearest parent that is there."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
