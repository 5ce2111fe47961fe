"""What a host was built of: packages, settings of the kernel, firmware.

The fingerprint says what a host is; both together are what a host that is built again must equal
(docs/rebuild.md). Keys are flat, values plain JSON, and nothing identifies a machine. Folders are
arguments so that tests can bring their own.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import Refused
from ..fields import UNOBSERVED, Field
from . import agent, devices, facts
from .facts import has, read_text

# Keys FAMILY.NAME; `{}` is the name.
FAMILIES: dict[str, Field] = {
    "package": Field("package {}"),
    "sysctl": Field("kernel setting {}"),
    "module": Field("parameter {} of a kernel module"),
    "firmware": Field("firmware: {}"),
}
# What the firmware says of itself and of the board; the machine's make is in the fingerprint, and
# other files have serial numbers.
FIRMWARE = ("bios_vendor", "bios_version", "bios_date", "board_vendor", "board_name")
# Settings that bear on speed: each is told whoever set it. They can be changed under a running
# system, and no file need say so.
ALWAYS = (
    *("kernel.numa_balancing", "kernel.sched_rt_runtime_us", "kernel.timer_migration"),
    *("net.core.default_qdisc", "net.core.netdev_max_backlog", "net.core.rmem_max"),
    *("net.core.somaxconn", "net.core.wmem_max", "net.ipv4.tcp_congestion_control"),
    *("net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    *("vm.dirty_background_ratio", "vm.dirty_ratio", "vm.nr_hugepages", "vm.overcommit_memory"),
    *("vm.swappiness", "vm.vfs_cache_pressure", "vm.zone_reclaim_mode"),
)
# Where settings and parameters of modules are written down, the distribution's first.
DISTRIBUTION = ("lib", "usr/lib")
OWN = ("etc", "run", "usr/local/lib")
ANSWER_S = 60.0


def capture() -> dict[str, Any]:
    """All of it that can be read of this host."""
    return whole(agent.root()) if agent.sees_processes() else dict.fromkeys(FAMILIES, UNOBSERVED)


def whole(root: Path) -> dict[str, Any]:
    """The same of a host whose files are at `root`."""
    own = settings(root, shared=facts.virtualisation() == "container")
    return dict(sorted((packages(root) | own | parameters(root) | firmware(root)).items()))


def packages(root: Path = Path("/")) -> dict[str, str]:
    """The version of each package that is installed; nothing where they are not the dpkg's."""
    if not has("dpkg-query"):
        return {}
    form = "${db:Status-Status} ${Package} ${Architecture} ${Version}\n"
    admin = f"--admindir={root / 'var/lib/dpkg'}"
    lines = (line.split() for line in _output(["dpkg-query", admin, "-W", "-f", form]))
    own = {"all", *_output(["dpkg", "--print-architecture"])}
    return {
        f"package.{name if architecture in own else f'{name}:{architecture}'}": version
        for status, name, architecture, version in lines
        if status == "installed"
    }


def settings(root: Path = Path("/"), *, shared: bool = False) -> dict[str, str]:
    """Those that bear on speed; those that someone's files set; and those of the distribution's
    files that are now otherwise. What no file names and is not in `ALWAYS` is not told, and of a
    kernel that is shared with others, as a container's is, those of the network alone.
    """
    given = dict(_lines(root, DISTRIBUTION, "sysctl.d"))
    own = dict(_lines(root, OWN, "sysctl.d"))
    own |= dict(_settings(read_text(root / "etc/sysctl.conf")))
    now = {name: _now(root, name) for name in {*ALWAYS, *given, *own}}
    told = {name for name in given if now[name] != given[name]} | {*ALWAYS, *own}
    mine = {name for name in told if name.startswith("net") or not shared}
    return {f"sysctl.{name}": value for name in mine if (value := now[name])}


def parameters(root: Path = Path("/")) -> dict[str, str]:
    """The parameters of loaded modules that some file of modprobe's sets, as they are now."""
    found = {}
    for folder in (*DISTRIBUTION, *OWN):
        for path in sorted((root / folder / "modprobe.d").glob("*.conf")):
            for module, parameter in _options(read_text(path)):
                value = read_text(root / f"sys/module/{module}/parameters/{parameter}")
                if value:
                    found[f"module.{module}.{parameter}"] = value
    return found


def firmware(root: Path = Path("/")) -> dict[str, str]:
    """Of the machine, of its disks and of its network cards, where it can be read."""
    found = {f"firmware.{n}": read_text(root / "sys/class/dmi/id" / n) for n in FIRMWARE}
    for path in sorted((root / "sys/block").glob("*/device/firmware_rev")):
        found[f"firmware.disk {path.parents[1].name}"] = read_text(path)
    for path in sorted((root / "sys/class/net").glob("*/device")):
        found[f"firmware.network card {path.parent.name}"] = devices.firmware(path.parent.name)
    return {key: value for key, value in found.items() if value}


def differing(wanted: Mapping[str, str], installed: Mapping[str, str]) -> list[str]:
    """The packages, `NAME=VERSION`, that are not installed at the version that is wanted."""
    return [f"{n}={v}" for n, v in sorted(wanted.items()) if installed.get(f"package.{n}") != v]


def unavailable(asked: list[str]) -> list[str]:
    """Those of `NAME=VERSION` that no source of packages of this host has.

    Raises Refused where the host has no apt to ask.
    """
    if not asked:
        return []
    if not has("apt-cache"):
        raise Refused(
            "packages are brought to locked versions by apt",
            given=f"a host without it, and {len(asked)} packages that differ",
            then="bring them to the versions of the lock by other means, and run it again",
        )
    names = [one.partition("=")[0] for one in asked]
    offered = _offered(_output(["apt-cache", "madison", *names]))
    return [one for one in asked if one not in offered]


def _offered(lines: list[str]) -> set[str]:
    """`NAME=VERSION`, also as `NAME:ARCHITECTURE=VERSION`, in what `apt-cache madison` says:
    `NAME | VERSION | URL SUITE ARCHITECTURE Packages` a line.
    """
    found = set()
    for name, version, source, *_ in (line.split("|") for line in lines if line.count("|") > 1):
        architecture = source.split()[-2:][0]
        found |= {f"{name.strip()}{of}={version.strip()}" for of in ("", f":{architecture}")}
    return found


def _now(root: Path, name: str) -> str:
    """A setting as the kernel has it, its numbers parted by one space."""
    # A slash in place of a dot stands for a dot in a name: `net/ipv4/conf/eth0.1/forwarding`.
    path = name if "/" in name else name.replace(".", "/")
    return " ".join(read_text(root / "proc/sys" / path).split())


def _lines(root: Path, folders: tuple[str, ...], parts: str) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in sorted((root / folder / parts).glob("*.conf")):
            yield from _settings(read_text(path))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """The names and values in a file of sysctl's. Patterns are left out: what they reach comes and
    goes with network cards.
    """
    for line in text.splitlines():
        name, equals, value = line.strip().lstrip("-").partition("=")
        if equals and not name.startswith(("#", ";")) and "*" not in name:
            yield name.strip(), " ".join(value.split())


def _options(text: str) -> Iterator[tuple[str, str]]:
    """The modules and parameters that a file of modprobe's sets."""
    for line in text.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] == "options":  # noqa: PLR2004 - options MODULE NAME=VALUE …
            module = words[1].replace("-", "_")
            yield from ((module, word.partition("=")[0]) for word in words[2:])


def _output(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    return re.split(r"\n+", done.stdout.strip()) if done.stdout.strip() else []
