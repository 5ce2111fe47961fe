"""What is left of the rehearsal cloud on its machine: found, ended and removed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ...host import owned

# In the environment of every process that the cloud starts, with its folder.
MARK = "STRATA_CLOUD"
# Of those that begin with an environment of their own; their arguments name files of the cloud.
APART = ("dnsmasq", "privsep-helper", "qemu-system")
COMMENT = "strata-openstack"
LINKS = ("osguests0", "osguests1", "brmetal")
# How Neutron begins the names of bridges, of links to guests, and of where its servers of DHCP and
# its routers are.
NEUTRONS = ("brq", "tap")
SPACES = ("qdhcp-", "qrouter-")
DOMAINS = Path("/etc/libvirt/qemu")
GENTLE_S, PATIENCE_S = 10.0, 30.0


@dataclass(frozen=True)
class Cloud:
    """The cloud whose files are in `folder`, and in `run` while it runs."""

    folder: Path
    run: Path

    def found(self) -> dict[str, list[str]]:
        """All that is there, by kind."""
        return {
            "processes": [f"{pid} {name}" for pid, name in sorted(self._processes().items())],
            "network namespaces": self._spaces(),
            "interfaces": self._links(),
            "firewall rules": self._rules(),
            "domains": [str(path) for path in self._domains()],
            "files": [str(path) for path in (self.folder, self.run) if os.path.lexists(path)],
        }

    def remove(self) -> None:
        """End its processes, and remove its interfaces, domains and files.

        Raises Refused when the folder is not a cloud's; firewall rules stay.
        """
        folder = owned.Folder(self.folder, "cloud")
        folder.is_ours()
        self._end()
        for name in self._spaces():
            _output(["ip", "netns", "delete", name])
        for name in self._links():
            _output(["ip", "link", "delete", name])
        for path in self._domains():
            path.unlink(missing_ok=True)
        folder.remove()
        if self.run.is_dir():
            owned.remove(self.run)

    def _processes(self) -> dict[int, str]:
        """Names by number; none that ended meanwhile."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name = (process / "comm").read_text().strip()
                environment = (process / "environ").read_bytes().split(b"\0")
                arguments = (process / "cmdline").read_bytes() if name.startswith(APART) else b""
                mine = f"{MARK}={self.folder}".encode() in environment
                if mine or f"{self.folder}/".encode() in arguments:
                    found[int(process.name)] = name
        return found

    def _end(self) -> None:
        began = time.monotonic()
        while (living := self._processes()) and time.monotonic() - began < PATIENCE_S:
            hard = time.monotonic() - began > GENTLE_S
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if hard else signal.SIGTERM)
            time.sleep(0.2)

    def _spaces(self) -> list[str]:
        found = json.loads(_output(["ip", "-json", "netns", "list"]) or "[]")
        return [space["name"] for space in found if space["name"].startswith(SPACES)]

    def _links(self) -> list[str]:
        found = [link["ifname"] for link in json.loads(_output(["ip", "-json", "link"]) or "[]")]
        return [name for name in found if name in LINKS or name.startswith(NEUTRONS)]

    def _rules(self) -> list[str]:
        return [line for line in _output(["iptables-save"]).splitlines() if COMMENT in line]

    def _domains(self) -> list[Path]:
        """What libvirt has written of guests and of places for media that are this cloud's."""
        paths = [*DOMAINS.glob("*.xml"), *DOMAINS.parent.glob("storage/**/*.xml")]
        return sorted(path for path in paths if f"{self.folder}/" in path.read_text())


def _output(command: list[str]) -> str:
    """What it prints; nothing where it fails, or there is no such program."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
