"""A rehearsal lab, several nodes on this machine: its settings, and what follows from them.

Everything of a lab bears its name, so that it can be found again: containers, volumes and the
network by a label, the bridge by its name, control groups and files by their folder.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ... import units
from ...errors import Refused

LABEL = "strata.rehearsal"
TESTBED = "strata.testbed"  # the label with the testbed whose hosts the nodes are, if any
IMAGE = "strata/rehearsal"
CGROUP = "strata-rehearsal"
# Sockets of SSH connections that are kept open; a path of theirs must stay below 108 bytes.
CONTROL = Path("/run/strata-rehearsal")
NODE_NAME = r"[a-z0-9][a-z0-9-]{0,29}"
FIRST_ADDRESS = 11
MOST_NODES = 50
DISKS = "disks"
LEAST_DISK = 2**30
# How many places to watch files from root has on this machine, and how many the services of a node
# take, of a cluster's as well. Without one, a service does not start, and says no word of it.
WATCHING = Path("/proc/sys/fs/inotify/max_user_instances")
WATCHED = 20
# What is on a node's own disk: overlays of engines cannot stand on the one that a node starts from,
# and a cluster's state is synced.
PARTS = {
    "docker": "/var/lib/docker",
    "containerd": "/var/lib/containerd",
    "kubelet": "/var/lib/kubelet",
    "etcd": "/var/lib/etcd",
    "strata": "/var/lib/strata",
}
RATES = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
DELAYS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
PROGRAMS = ("ip", "tc", "nsenter", "losetup", "mkfs.ext4", "ssh-keygen")
LEAST_RATE, MOST_RATE = 1e6, 1e11
MOST_DELAY_S = 10.0
# In the order of their bits in the kernel's masks.
CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
)


@dataclass(frozen=True)
class Shape:
    """What each link does in each direction: bit/s (0: no limit), seconds, a fraction."""

    rate: float
    delay: float
    loss: float


@dataclass(frozen=True)
class Node:
    """One node; `folder` holds its host key, `volumes` are folders of its disk by path in it."""

    name: str
    container: str
    address: str
    folder: str
    cgroup: str
    volumes: dict[str, str]


@dataclass(frozen=True)
class Lab:
    """A lab of which every setting has been accepted. Sizes in bytes, CPUs in cores (0: all)."""

    name: str
    nodes: list[Node]
    network: str
    bridge: str
    subnet: str
    gateway: str
    folder: str
    disks: str
    disk: int
    control: str
    shape: Shape
    memory: int
    cpus: float

    def document(self) -> dict[str, Any]:
        return asdict(self)


def lab(given: Mapping[str, Any]) -> Lab:
    """The lab that was asked for. Raises Refused."""
    name, subnet = _name(given["name"]), _subnet(given["subnet"])
    folder = Path(given["cache"]) / "rehearsal" / name
    hosts = given["hosts"] or _numbered(given["nodes"], subnet)
    _check_addresses(hosts, subnet)
    return Lab(
        name=name,
        nodes=[_node(name, node, address, folder) for node, address in hosts.items()],
        network=f"rehearsal-{name}",
        bridge=f"rh-{name}",
        subnet=str(subnet),
        gateway=str(subnet[1]),
        folder=str(folder),
        disks=str(folder / DISKS),
        disk=_disk(given["disk"]),
        control=str(CONTROL / name),
        shape=Shape(rate(given["rate"]), delay(given["delay"]), loss(given["loss"])),
        memory=units.size(given["memory"]),
        cpus=_cpus(given["cpus"]),
    )


def claim(name: str) -> str:
    """The line by which a nodes.yml is the lab's, to be written again and removed."""
    return f"# Written by playbooks/rehearse.yml, and removed with the lab: rehearsal lab {name}."


def is_of(nodes: Path, name: str) -> bool:
    """Whether the file nodes.yml was written for the lab."""
    try:
        return claim(name) in nodes.read_text(errors="replace").splitlines()
    except OSError:
        return False


def check_inventory(folder: Path, name: str) -> None:
    """Raises Refused when there is a nodes.yml that was not written for the lab."""
    nodes = folder / "nodes.yml"
    if os.path.lexists(nodes) and not is_of(nodes, name):
        raise Refused(
            f"nodes.yml in the inventory's folder is written for lab {name}, and removed with it",
            example=f"rehearsal_inventory=inventories/{name}",
            given=f"{nodes}, which does not have the line {claim(name)!r}",
            then="give the lab another folder: -e rehearsal_inventory=FOLDER",
        )


def check_testbed(containers: Iterable[Any], name: str, testbed: str) -> None:
    """Raises Refused where the lab that is there is of another testbed; '' is of none.

    `containers` are those of the lab, as `docker.DockerClient.containers.list` gives them.
    """
    for found in containers:
        other = found.labels.get(TESTBED, "")
        if other != testbed:
            raise Refused(
                "the nodes of a rehearsal lab are hosts of one testbed",
                example="rehearsal_lab=other",
                given=f"{found.name}, which is {f'of the testbed {other}' if other else 'of none'}",
                then="choose another name and subnet, or take that lab away: "
                f"playbooks/rehearse.yml -e rehearsal_lab={name} -e state=absent",
            )


def _numbered(count: int, subnet: ipaddress.IPv4Network) -> dict[str, str]:
    """The address of each node by its name, of a lab that is made of so many."""
    numbers = range(1, _count(count, subnet) + 1)
    return {f"node{number}": str(subnet[FIRST_ADDRESS - 1 + number]) for number in numbers}


def _check_addresses(hosts: Mapping[str, str], subnet: ipaddress.IPv4Network) -> None:
    """Raises Refused unless each node has a name, and an address of its own in the subnet."""
    for name, address in hosts.items():
        if not re.fullmatch(NODE_NAME, name):
            raise Refused(
                "the name of a rehearsal lab's node is up to 30 letters, digits and -, lower case",
                example="node1",
                given=repr(name[:200]),
            )
        if not _fits(address, subnet) or list(hosts.values()).count(address) > 1:
            raise Refused(
                "each node of a rehearsal lab has an address of its own in the lab's subnet",
                example=f"{name}: {{strata_address: {subnet[-2]}}}",
                given=f"{name}: {{strata_address: {address}}}, rehearsal_subnet: {subnet}",
            )


def _fits(text: str, subnet: ipaddress.IPv4Network) -> bool:
    """Whether a node can have the address: of the subnet, and not the gateway's."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    taken = (subnet.network_address, subnet[1], subnet.broadcast_address)
    return address in subnet and address not in taken


def _node(lab_name: str, name: str, address: str, folder: Path) -> Node:
    container = f"rehearsal-{lab_name}-{name}"
    return Node(
        name=name,
        container=container,
        address=address,
        folder=str(folder / name),
        cgroup=f"/{CGROUP}/{lab_name}/{name}",
        volumes={path: str(folder / DISKS / name / part) for part, path in PARTS.items()},
    )


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]{0,9}", text):
        raise Refused(
            "a rehearsal lab's name is a letter, then up to nine letters or digits, lower case",
            example="rehearsal_lab=strata",
            given=repr(text),
        )
    return text


def _subnet(text: str) -> ipaddress.IPv4Network:
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise Refused(
            f"the lab's subnet cannot be read: {error}",
            example="rehearsal_subnet=10.201.7.0/24",
            given=repr(text),
        ) from None
    if not found.is_private:
        raise Refused(
            "the lab's subnet must be a private one: its addresses are made up",
            example="rehearsal_subnet=10.201.7.0/24",
            given=text,
        )
    return found


def _count(number: int, subnet: ipaddress.IPv4Network) -> int:
    if not 1 <= number <= MOST_NODES:
        raise Refused(
            f"a rehearsal lab has 1 to {MOST_NODES} nodes",
            example="rehearsal_nodes=3",
            given=f"rehearsal_nodes={number}",
            then="to take the lab away: -e state=absent",
        )
    room = subnet.num_addresses - FIRST_ADDRESS - 1
    if number > room:
        raise Refused(
            "the lab's subnet is too small for its nodes",
            example="rehearsal_subnet=10.201.7.0/24",
            given=f"{number} nodes in {subnet}, which has room for {max(room, 0)}",
        )
    return number


def _disk(text: str) -> int:
    found = units.size(text)
    if found < LEAST_DISK:
        raise Refused("a node's disk has at least 1G", example="rehearsal_disk=20G", given=text)
    return found


def _cpus(number: float) -> float:
    most = os.cpu_count() or 1
    if not 0 <= number <= most:
        raise Refused(
            f"a node can have up to the {most} CPUs of this machine; 0 sets no limit",
            example="rehearsal_cpus=1.5",
            given=f"rehearsal_cpus={number:g}",
        )
    return number


def rate(text: str) -> float:
    """Bits per second of `1gbit`, `100mbit`; 0 of `none`. Raises Refused."""
    if text.strip().lower() in {"none", "0", ""}:
        return 0.0
    found = _scaled(text, RATES)
    if found is None or not LEAST_RATE <= found <= MOST_RATE:
        raise Refused(
            "a link's rate is a number with kbit, mbit or gbit, from 1mbit to 100gbit, or none",
            example="rehearsal_rate=1gbit",
            given=f"rehearsal_rate={text}",
        )
    return found


def delay(text: str) -> float:
    """Seconds of `20ms`, `500us`; 0 of `none`. Raises Refused."""
    if text.strip().lower() in {"none", "0", ""}:
        return 0.0
    found = _scaled(text, DELAYS)
    if found is None or not 0 < found <= MOST_DELAY_S:
        raise Refused(
            "a link's delay is a number with us, ms or s, at most 10s, or none;"
            " each packet that a node sends gets it",
            example="rehearsal_delay=20ms",
            given=f"rehearsal_delay={text}",
        )
    return found


def loss(text: str) -> float:
    """The fraction of `1%`, `0.1 %`; 0 of `none`. Raises Refused."""
    if text.strip().lower() in {"none", "0", ""}:
        return 0.0
    found = _scaled(text, {"%": 0.01})
    if found is None or not 0 < found <= 0.5:  # noqa: PLR2004 - half of all packets
        raise Refused(
            "a link's loss is a percentage of up to 50%, or none;"
            " each packet that a node sends is lost with that chance",
            example="rehearsal_loss=0.5%",
            given=f"rehearsal_loss={text}",
        )
    return found


def _scaled(text: str, scale: Mapping[str, float]) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z%]+)", text.strip().lower())
    if not match or match[2] not in scale:
        return None
    return float(match[1]) * scale[match[2]]


# What this machine must have.


def check_machine(asked: Lab) -> None:
    """Refuse what this machine cannot do, before anything is made. Raises Refused."""
    if os.geteuid() != 0:
        raise Refused(
            "the rehearsal lab needs root on this machine, to make root filesystems and links",
            example="sudo .venv/bin/ansible-playbook playbooks/rehearse.yml",
        )
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        raise Refused(
            f"the rehearsal lab needs {', '.join(missing)} on this machine",
            then="apt install iproute2 util-linux e2fsprogs openssh-client",
        )
    for queue in _queues(asked.shape):
        _check_queue(queue)
    check_watching(len(asked.nodes), int(WATCHING.read_text()))
    _check_routes(asked)


def check_watching(nodes: int, most: int) -> None:
    """Refuse more nodes than can watch their files. Raises Refused."""
    if nodes * WATCHED > most:
        raise Refused(
            f"each node is a server, whose services watch files from {WATCHED} places",
            given=f"{nodes} nodes, and fs.inotify.max_user_instances={most}",
            then=f"sysctl -w fs.inotify.max_user_instances={2 * nodes * WATCHED}",
        )


def _queues(shape: Shape) -> list[tuple[str, str, list[str]]]:
    """What the links need of the kernel: the setting, the queue, and its arguments to try."""
    found = []
    if shape.rate:
        found.append(
            ("rehearsal_rate", "tbf", ["rate", "1mbit", "burst", "32kb", "latency", "10ms"])
        )
    if shape.delay:
        found.append(("rehearsal_delay", "netem", ["delay", "1ms"]))
    if shape.loss:
        found.append(("rehearsal_loss", "netem", ["loss", "1%"]))
    return found


def _check_queue(queue: tuple[str, str, list[str]]) -> None:
    """Try it, in a network namespace that ends with the try."""
    setting, kind, arguments = queue
    tried = _run(["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", kind, *arguments])
    if tried.returncode != 0:
        raise Refused(
            f"{setting} needs the queue {kind}, which this machine's kernel does not have",
            given=tried.stderr.strip(),
            then=f"load the module sch_{kind}, or leave it out: -e {setting}=none",
        )


def _check_routes(asked: Lab) -> None:
    """The subnet must be free, but for the lab itself."""
    done = _run(["ip", "-j", "-4", "route", "show", "table", "all"])
    subnet = ipaddress.IPv4Network(asked.subnet)
    for route in json.loads(done.stdout or "[]"):
        if route.get("dev") == asked.bridge or route["dst"] == "default":
            continue
        if subnet.overlaps(ipaddress.IPv4Network(route["dst"], strict=False)):
            raise Refused(
                "the lab's subnet is in use on this machine",
                example="rehearsal_subnet=10.201.8.0/24",
                given=f"{asked.subnet}, and a route to {route['dst']} through {route.get('dev')}",
                then="choose another subnet, or take away the lab that has it",
            )


def capabilities_missing(mask: int | None = None) -> list[str]:
    """Capabilities that this machine cannot give to a node, by name.

    `mask` is the bounding set; None asks the kernel for this process's.
    """
    if mask is None:
        status = Path("/proc/self/status").read_text()
        match = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
        mask = int(match[1], 16) if match else 0
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    known = CAPABILITIES[: last + 1]
    return [name for bit, name in enumerate(known) if not mask >> bit & 1]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
