"""What is left of a rehearsal lab: found by the name that everything of it bears, and removed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...host import owned
from .disks import devices
from .lab import CGROUP, CONTROL, LABEL, TESTBED, is_of

CGROUP_ROOT = Path("/sys/fs/cgroup")
# After the last process of a group is gone, the kernel needs a moment; on a busy machine, seconds.
BUSY_S = 60.0


@dataclass(frozen=True)
class Trace:
    """The names to look for: of the lab, its bridge, its network, its files and its testbed."""

    name: str
    bridge: str
    network: str
    folder: Path
    control: Path
    inventory: Path | None  # the file nodes.yml, where one was written
    testbed: str = ""  # whose hosts the nodes are

    def found(self, client: Any) -> dict[str, list[str]]:
        """All that is there, by kind. `client` is a `docker.DockerClient`, or None without one."""
        return {
            **self._of_docker(client),
            "interfaces": self._interfaces(),
            "firewall rules": self._rules(),
            "control groups": [str(path) for path in self._groups()],
            "processes": [f"{pid} {what}" for pid, what in sorted(self._processes().items())],
            "mounts": self._mounts(),
            "loop devices": devices(self.folder),
            "files": [str(path) for path in self._files()],
        }

    def _of_docker(self, client: Any) -> dict[str, list[str]]:
        if client is None:
            return {}
        labels = [f"{LABEL}={self.name}"]
        labels += [f"{TESTBED}={self.testbed}"] if self.testbed else []
        found: dict[str, set[str]] = {"containers": set(), "networks": set(), "volumes": set()}
        for mine in ({"label": label} for label in labels):
            found["containers"] |= {c.name for c in client.containers.list(all=True, filters=mine)}
            found["networks"] |= {network.name for network in client.networks.list(filters=mine)}
            found["volumes"] |= {volume.name for volume in client.volumes.list(filters=mine)}
        return {kind: sorted(names) for kind, names in found.items()}

    def _interfaces(self) -> list[str]:
        """The bridge, and every link of a node that hangs on it."""
        links = json.loads(_output(["ip", "-j", "link", "show"]) or "[]")
        return [
            link["ifname"] for link in links if self.bridge in {link["ifname"], link.get("master")}
        ]

    def _rules(self) -> list[str]:
        """Rules that name the bridge, whichever of iptables' two tools wrote them."""
        rules = []
        for tool in ("iptables-save", "ip6tables-save"):
            rules += [line for line in _output([tool]).splitlines() if self.bridge in line.split()]
        return rules

    def _groups(self) -> list[Path]:
        """The lab's folder in each tree of control groups."""
        trees = [CGROUP_ROOT, *(path for path in CGROUP_ROOT.glob("*") if path.is_dir())]
        folders = [tree / CGROUP / self.name for tree in trees]
        return [folder for folder in folders if folder.is_dir()]

    def _processes(self) -> dict[int, str]:
        """Processes in the lab's groups, and connections to it that SSH keeps open."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                title = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                in_group = f":/{CGROUP}/{self.name}/" in (folder / "cgroup").read_text()
                if in_group or title.startswith(f"ssh: {self.control}/"):
                    found[int(folder.name)] = title.strip() or (folder / "comm").read_text().strip()
        return found

    def _mounts(self) -> list[str]:
        paths = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        mine = (f"{self.folder}/", f"{self.control}/")
        return [path for path in paths if path.startswith(mine)]

    def _files(self) -> list[Path]:
        """Its folders, and nodes.yml where that is the lab's."""
        nodes = [self.inventory] if self.inventory and is_of(self.inventory, self.name) else []
        return [path for path in (self.folder, self.control, *nodes) if os.path.lexists(path)]

    def remove(self) -> None:
        """End the kept connections, remove their sockets, the keys and the control groups.

        Containers and the network are the engine's to remove, before this; disks are unmounted.
        Raises Refused when the lab's folder is not in Strata's cache.
        """
        owned.check_below(self.folder)
        for pid, title in self._processes().items():
            if title.startswith("ssh: "):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        for path in self._files():
            with contextlib.suppress(OSError):  # a disk in use is mounted there: it is found again
                owned.remove(path)
        for empty in (CONTROL, self.folder.parent):
            with contextlib.suppress(OSError):
                empty.rmdir()
        owned.Folder(self.folder.parent.parent, "cache").let_go()
        deadline = time.monotonic() + BUSY_S
        for group in self._groups():
            _remove_group(group, deadline)
            with contextlib.suppress(OSError):  # another lab has it as well
                group.parent.rmdir()
        while self._processes() and time.monotonic() < deadline:
            time.sleep(0.02)


def _remove_group(folder: Path, deadline: float) -> None:
    """Remove an empty tree of groups, the innermost first; what is busy stays, to be found."""
    for inner in [path for path, _, _ in os.walk(folder, topdown=False)]:
        while time.monotonic() < deadline:
            try:
                Path(inner).rmdir()
            except FileNotFoundError:  # what was in it has removed it
                break
            except OSError:
                time.sleep(0.02)
            else:
                break


def _output(command: list[str]) -> str:
    """What it prints; nothing where there is no such program."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
