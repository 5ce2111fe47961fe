"""The Docker engine of a host, asked without its SDK."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import socket
from pathlib import Path
from typing import Any

from ...fields import Field
from ...host.facts import has

DOCKER_SOCKET = "/var/run/docker.sock"
# Preflight waits for the slowest host; an engine that is well answers in milliseconds.
PING_S = 1.0
ANSWER_S = 3.0

SDK = "python-docker"  # what the engine's SDK is called among what is missing
# Where the kernel has AppArmor, the engine starts no container before it has loaded a profile.
APPARMOR = Path("/sys/kernel/security/apparmor")

# A container itself is a child of its shim, and in a control group of its own.
DAEMONS = ("dockerd", "containerd", "containerd-shim", "docker-proxy")

FIELDS = {
    "docker.version": Field("Docker"),
    "docker.storage_driver": Field("Docker's storage driver"),
    "docker.cgroup_driver": Field("Docker's control group driver"),
    "docker.runtime": Field("Docker's default runtime"),
    "docker.runc": Field("runc"),
}


def versions(info: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """The keys of Docker, from its answers to /info and /version."""
    parts = {one.get("Name"): one.get("Version") for one in version.get("Components") or []}
    return {
        "docker.version": info.get("ServerVersion"),
        "docker.storage_driver": info.get("Driver"),
        "docker.cgroup_driver": info.get("CgroupDriver"),
        "docker.runtime": info.get("DefaultRuntime"),
        "docker.runc": parts.get("runc"),
    }


def fingerprint() -> dict[str, Any]:
    """Versions and drivers of the engine, when one answers."""
    try:
        return versions(get("/info"), get("/version"))
    except (OSError, ValueError):
        return {}


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket: what Docker speaks, without its SDK. `timeout` in seconds."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str, timeout: float = ANSWER_S, at: str = DOCKER_SOCKET) -> bytes:
    """The engine's answer to a GET. Raises OSError when there is none, or none that is well."""
    with contextlib.closing(UnixConnection(at, timeout)) as connection:
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"no answer in HTTP: {error}") from error
    if answer.status != http.client.OK:
        raise OSError(f"Docker answered {answer.status}")
    return text


def get(path: str, at: str = DOCKER_SOCKET) -> dict[str, Any]:
    """What the engine answers to a GET. Raises OSError, or ValueError when it is not JSON."""
    found = json.loads(ask(path, at=at))
    if not isinstance(found, dict):
        raise ValueError(f"no object at {path}")
    return found


def facts(at: str = DOCKER_SOCKET) -> dict[str, Any]:
    """State of the engine; `why_not` is '' when it is usable or can be made so."""
    running, version = False, ""
    with contextlib.suppress(OSError, ValueError):
        running = ask("/_ping", PING_S, at).strip() == b"OK"
        version = str(get("/version", at).get("Version", "")) if running else ""
    lacks = missing(running=running)
    return {
        "missing": lacks,
        "running": running,
        "version": version,
        "why_not": why_not(
            missing=lacks,
            running=running,
            socket=Path(at).exists(),
            root=os.geteuid() == 0,
            apt=has("apt-get"),
        ),
    }


def missing(*, running: bool, apparmor: Path = APPARMOR) -> list[str]:
    """What this host lacks of an engine's programs, and the SDK for Python.

    An engine that runs, and whose program is not there, is looked after by others.
    """
    elsewhere = running and not has("dockerd")
    needed = [] if elsewhere else ["dockerd", *(["apparmor_parser"] if apparmor.is_dir() else [])]
    sdk = [] if importlib.util.find_spec("docker") else [SDK]
    return [name for name in needed if not has(name)] + sdk


def why_not(*, missing: list[str], running: bool, socket: bool, root: bool, apt: bool) -> str:
    """'' when Docker is usable or root can start it or install what it lacks, else one clause."""
    lacks = f"it lacks {', '.join(missing)}"
    if root:
        return "" if apt or not missing else f"{lacks}, and this distribution has no apt"
    if missing:
        return f"{lacks}, and without root that cannot be changed"
    if running:
        return ""
    if socket:
        return "this account may not use its socket, and without root that cannot be changed"
    return "it does not run, and without root that cannot be changed"
