"""What waits for a cloud, or for hosts, ends with its command; here for what never answers."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strata.host import lease

from .conftest import RunModule

WAITING: dict[str, dict[str, Any]] = {
    "strata_openstack_metal": {"testbed": "lab"},
    "strata_openstack_guests": {"network": "n", "servers": {"vm1": "1"}, "known_hosts": "/none"},
    "strata_openstack_lease": {"testbed": "lab", "hosts": 1, "lease": {"hours": 1}},
}


def whose(command: subprocess.Popen[bytes]) -> dict[str, Any]:
    """How a module is told of the command with which it ends."""
    start = lease.start_time(command.pid)
    return {"host": socket.gethostname(), "pid": command.pid, "start": start}


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    """In the place of ansible-playbook."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def mute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: subprocess.Popen[bytes]
) -> Iterator[list[str]]:
    """A cloud that lets everybody in, answers nobody, and sees the command die meanwhile."""
    server = socket.create_server(("127.0.0.1", 0))
    seen: list[str] = []

    def let_in() -> None:
        connection, _ = server.accept()
        seen.append(connection.recv(4).decode())
        command.kill()
        command.wait()
        connection.recv(2**16)
        connection.recv(1)  # until the other side ends
        connection.close()

    thread = threading.Thread(target=let_in, daemon=True)
    thread.start()
    auth = {"auth_url": f"http://127.0.0.1:{server.getsockname()[1]}/v3", "project_name": "p"}
    auth |= {"username": "u", "password": "p", "user_domain_name": "d", "project_domain_name": "d"}
    path = tmp_path / "clouds.yaml"
    path.write_text(json.dumps({"clouds": {"mute": {"auth": auth}}}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(path))
    yield seen
    server.close()


@pytest.mark.parametrize("name", WAITING)
def test_a_module_that_waits_for_a_cloud_ends_with_its_command(
    name: str, run_module: RunModule, command: subprocess.Popen[bytes], mute: list[str]
) -> None:
    given = {"cloud": "mute", "holder": whose(command), **WAITING[name]}
    result = run_module(name, given)
    assert mute == ["GET "], "it had asked the cloud"
    assert result["failed"] and "KeyboardInterrupt" in json.dumps(result)


def test_a_module_that_waits_for_hosts_ends_with_its_command(
    tmp_path: Path, run_module: RunModule
) -> None:
    (tmp_path / "host_key-vm1.pub").write_text("ssh-ed25519 AAAA\n")
    hosts = {"vm1": {"instance": "1", "address": "127.0.0.1"}}
    with subprocess.Popen(["sleep", "3"]) as command:
        given = {"hosts": hosts, "keys": str(tmp_path), "holder": whose(command)}
        result = run_module("strata_guest_keys", given)
    assert result["failed"] and "KeyboardInterrupt" in json.dumps(result)
