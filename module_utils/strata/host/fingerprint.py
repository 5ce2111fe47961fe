"""What a host is made of: captured when a run is opened, compared before each trial.

Runs and hosts are compared by it too. Keys are flat, values plain JSON; a key that a host does
not have is not there. Nothing here identifies a machine: no serial numbers, no addresses.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ..fields import Field
from . import agent, cpus, devices, facts
from .facts import read_text

CPU = Path("/sys/devices/system/cpu")
# Machines of one make differ by some pages; what firmware and kernel keep is no difference.
MEMORY_STEP = 64 * 2**20


FIELDS: dict[str, Field] = {
    "cpu.model": Field("CPU"),
    "cpu.flags": Field("CPU flags"),
    "cpu.sockets": Field("sockets"),
    "cpu.cores": Field("cores"),
    "cpu.threads": Field("hardware threads"),
    "cpu.smt": Field("SMT"),
    "cpu.governor": Field("frequency governor"),
    "cpu.frequency_max": Field("highest frequency", "Hz"),
    "cpu.boost": Field("boost"),
    "cpu.microcode": Field("microcode"),
    "cpu.mitigations": Field("mitigations"),
    "numa.nodes": Field("NUMA nodes"),
    "kernel.release": Field("kernel"),
    "kernel.cmdline": Field("kernel command line"),
    "os.name": Field("distribution"),
    "cgroup.version": Field("control groups"),
    "memory.total": Field("memory", "bytes"),
    "swap.total": Field("swap", "bytes"),
    "thp": Field("transparent huge pages"),
    "filesystem": Field("file system of Strata's folder"),
    "virtualisation": Field("kind of machine"),
    "machine.model": Field("make of the machine"),
    "pci.devices": Field("PCI devices"),
    "pci.simulated": Field("PCI devices that are simulated"),
    "accelerator": Field("accelerator of the virtual machine"),
    "clock.source": Field("clock source"),
    "clock.synchronised": Field("clock is synchronised", impact="allowed"),
    "python": Field("Python of the modules", impact="allowed"),
}
# Keys FAMILY.NAME.LEAF, by family and leaf; `{}` is the name.
FAMILIES: dict[tuple[str, str], Field] = {
    ("disk", "bus"): Field("bus of disk {}"),
    ("disk", "model"): Field("disk {}"),
    ("disk", "rotational"): Field("disk {} rotates"),
    ("disk", "scheduler"): Field("scheduler of disk {}"),
    ("nic", "driver"): Field("driver of network card {}"),
    ("nic", "mtu"): Field("MTU of network card {}", "bytes"),
    ("nic", "speed"): Field("speed of network card {}", "bit/s"),
    ("nic", "offloads"): Field("offloads of network card {}"),
    ("nic", "queues"): Field("queues of network card {}"),
    ("nic", "rings"): Field("rings of network card {}", "packets"),
    ("gpu", "model"): Field("GPU {}"),
    ("gpu", "driver"): Field("driver of GPU {}"),
}
# What no software changes, beside the firmware: the profile to which a host is held when it is
# built again. Of a family, its leaf.
HARDWARE: frozenset[str | tuple[str, str]] = frozenset((
    "cpu.model", "cpu.flags", "cpu.sockets", "cpu.cores", "cpu.threads", "cpu.microcode",
    "numa.nodes", "memory.total", "virtualisation", "machine.model", "pci.devices", "pci.simulated",
    ("disk", "bus"), ("disk", "model"), ("disk", "rotational"), ("nic", "driver"), ("nic", "speed"),
    ("gpu", "model"),
))  # fmt: skip
# What can change under a running system and is read in a moment, beside disks and network cards.
QUICK = (
    "cpu.governor",
    "cpu.frequency_max",
    "cpu.boost",
    "cpu.smt",
    "cpu.threads",
    "cpu.mitigations",
    "kernel.release",
    "memory.total",
    "swap.total",
    "thp",
    "clock.source",
)
# The kernel's parameters that bear on speed; the rest can name machines and hold secrets.
PARAMETERS = frozenset((
    "amd_iommu", "amd_pstate", "apparmor", "audit", "cgroup_disable", "cgroup_enable",
    "cgroup_no_v1", "clocksource", "cpuidle_haltpoll", "default_hugepagesz", "haltpoll", "highres",
    "hugepages", "hugepagesz", "idle", "intel_idle", "intel_iommu", "intel_pstate", "iommu",
    "irqaffinity", "isolcpus", "kvm", "l1tf", "maxcpus", "mds", "mem", "mitigations", "nested_pvm",
    "nmi_watchdog", "nohz", "nohz_full", "nopti", "nosmt", "nospectre_v1", "nospectre_v2",
    "nr_cpus", "numa", "numa_balancing", "preempt", "processor", "psi", "pti", "rcu_nocbs",
    "retbleed", "selinux", "spec_store_bypass_disable", "spectre_v2", "swapaccount",
    "transparent_hugepage", "tsc", "tsx",
))  # fmt: skip
CLOCK_ERROR = 5  # TIME_ERROR of adjtimex(2): nothing keeps the clock right


def capture(state_dir: Path, others: Collection[str] = ()) -> dict[str, Any]:
    """Everything that can be read of this host.

    `others` are addresses of the testbed's hosts: the devices that lead to them are in it, whatever
    they are.
    """
    values = {key: read() for key, read in READERS.items()}
    folder = facts.existing(state_dir).resolve()
    values["filesystem"] = filesystem(read_text("/proc/mounts"), str(folder))
    values |= devices.disks() | devices.nics(used=devices.towards(others)) | devices.gpus()
    values |= devices.bus()
    if pod := agent.here():
        values = pod.seen(values)
    return {key: value for key, value in sorted(values.items()) if _is_known(value)}


def drift(reference: dict[str, Any], others: Collection[str] = ()) -> list[dict[str, Any]]:
    """What of the quick keys, disks and network cards differs from `reference` now.

    A key that is gone is None in `now`; one that has come since is no drift.
    """
    now = {key: READERS[key]() for key in QUICK} | devices.disks()
    now |= devices.nics(used=devices.towards(others))
    families = tuple(key for key in reference if key.startswith(("disk.", "nic.")))
    return [
        {"key": key, "reference": reference[key], "now": now.get(key)}
        for key in (*QUICK, *families)
        if key in reference and reference[key] != now.get(key)
    ]


def cpu_model(text: str) -> str:
    """The CPU's name in /proc/cpuinfo; ARM has only numbers for it."""
    one = cpus.cpuinfo(text)
    if "model name" in one:
        return " ".join(one["model name"].split())
    numbers = [one[name] for name in ("CPU implementer", "CPU part") if name in one]
    return " ".join(["ARM", *numbers]) if numbers else ""


def topology(text: str) -> tuple[int, int]:
    """Sockets and cores in /proc/cpuinfo."""
    cores = set()
    for block in text.strip().split("\n\n"):
        one = cpus.cpuinfo(block)
        cores.add((one.get("physical id", "0"), one.get("core id", one.get("processor", "0"))))
    return len({socket for socket, _ in cores}), len(cores)


def count(text: str) -> int | None:
    """How many numbers are in a list of the kernel's: `0-3,8` has five. None of none."""
    found = re.findall(r"(\d+)(?:-(\d+))?", text)
    return sum(int(last or first) - int(first) + 1 for first, last in found) or None


def filesystem(mounts: str, path: str) -> str:
    """Type of the file system that holds `path`, from /proc/mounts. The last mount is on top."""
    best, kind = "", ""
    for line in mounts.splitlines():
        _, point, found = line.split()[:3]
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def cmdline(text: str) -> str:
    """The words of the kernel's command line that bear on speed."""
    kept = [word for word in text.split() if re.split(r"[=.]", word)[0] in PARAMETERS]
    return " ".join(kept)


def accelerator(virtualisation: str) -> str:
    """What runs the virtual machine's instructions: `kvm`, `tcg` (an interpreter), `none`."""
    return {"kvm": "kvm", "qemu-tcg": "tcg", "none": "none"}.get(virtualisation, "unknown")


def machine_model(folder: Path = Path("/sys/class/dmi/id")) -> str:
    """Maker and product, as the firmware has them; '' where it has none."""
    return " ".join(filter(None, (read_text(folder / n) for n in ("sys_vendor", "product_name"))))


def boost(folder: Path = CPU) -> bool | None:
    """Whether the CPU may exceed its base frequency; None where the kernel does not say."""
    told = (
        (read_text(folder / "cpufreq/boost"), "1"),
        (read_text(folder / "intel_pstate/no_turbo"), "0"),
    )
    return next((text == on for text, on in told if text), None)


def governor(folder: Path = CPU) -> str:
    """The frequency governors in use; more than one when CPUs differ."""
    paths = folder.glob("cpufreq/policy*/scaling_governor")
    return ",".join(sorted({read_text(path) for path in paths} - {""}))


def frequency_max(folder: Path = CPU) -> int | None:
    """The highest frequency that is allowed, in Hz."""
    texts = [read_text(path) for path in folder.glob("cpufreq/policy*/scaling_max_freq")]
    return max((int(text) * 1000 for text in texts if text.isdigit()), default=None)


def clock_synchronised() -> bool | None:
    """Whether something keeps the clock right; None where the kernel may not be asked."""
    # struct timex is 208 bytes on 64-bit machines; `modes` 0 reads only.
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256))
    return None if state < 0 else state != CLOCK_ERROR


def cgroup_version(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """2, or 1 also where version 2 is mounted beside it; None without control groups."""
    if (folder / "cgroup.controllers").exists():
        return 2
    return 1 if folder.is_dir() and any(folder.iterdir()) else None


def _mitigations() -> dict[str, str]:
    return {path.name: read_text(path) for path in sorted((CPU / "vulnerabilities").glob("*"))}


def _memory(name: str) -> int | None:
    found = facts.meminfo(read_text("/proc/meminfo")).get(name)
    return None if found is None else round(found / MEMORY_STEP) * MEMORY_STEP


def _is_known(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


READERS: dict[str, Callable[[], Any]] = {
    "cpu.model": lambda: cpu_model(read_text("/proc/cpuinfo")),
    "cpu.flags": lambda: cpus.flags(read_text("/proc/cpuinfo")),
    "cpu.sockets": lambda: topology(read_text("/proc/cpuinfo"))[0],
    "cpu.cores": lambda: topology(read_text("/proc/cpuinfo"))[1],
    "cpu.threads": os.cpu_count,
    "cpu.smt": lambda: read_text(CPU / "smt/control"),
    "cpu.governor": governor,
    "cpu.frequency_max": frequency_max,
    "cpu.boost": boost,
    "cpu.microcode": lambda: cpus.cpuinfo(read_text("/proc/cpuinfo")).get("microcode"),
    "cpu.mitigations": _mitigations,
    "numa.nodes": lambda: count(read_text("/sys/devices/system/node/online")),
    "kernel.release": platform.release,
    "kernel.cmdline": lambda: cmdline(read_text("/proc/cmdline")),
    "os.name": lambda: " ".join(facts.distribution().values()).strip(),
    "cgroup.version": cgroup_version,
    "memory.total": lambda: _memory("MemTotal"),
    "swap.total": lambda: facts.meminfo(read_text("/proc/meminfo")).get("SwapTotal"),
    "thp": lambda: devices.chosen(read_text("/sys/kernel/mm/transparent_hugepage/enabled")),
    "virtualisation": facts.virtualisation,
    "accelerator": lambda: accelerator(facts.virtualisation()),
    "machine.model": machine_model,
    "clock.source": lambda: read_text(f"{facts.CLOCKS}/current_clocksource"),
    "clock.synchronised": clock_synchronised,
    "python": platform.python_version,
}
