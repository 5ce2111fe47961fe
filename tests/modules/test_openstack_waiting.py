"""What waits for a cloud ends with its command; here for one that says nothing at all."""

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
    whose = {"host": socket.gethostname(), "pid": command.pid}
    whose["start"] = lease.start_time(command.pid)
    result = run_module(name, {"cloud": "mute", "holder": whose, **WAITING[name]})
    assert mute == ["GET "], "it had asked the cloud"
    assert result["failed"] and "KeyboardInterrupt" in json.dumps(result)
