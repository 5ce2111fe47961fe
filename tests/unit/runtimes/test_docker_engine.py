"""The Docker engine asked without its SDK, from recorded text and from an engine of our own."""

from __future__ import annotations

import http.server
import importlib.util
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.runtimes import docker
from strata.runtimes.docker import engine as engines
from strata.runtimes.docker import images

INFO = {
    "ID": "62A4:GLA5",
    "Name": "vm",
    "ServerVersion": "20.10.24+dfsg1",
    "Driver": "overlay2",
    "CgroupDriver": "cgroupfs",
    "DefaultRuntime": "runc",
}
COMPONENTS = [{"Name": "Engine", "Version": "20.10"}, {"Name": "runc", "Version": "1.1.5"}]


@pytest.mark.parametrize(
    ("missing", "running", "socket", "root", "apt", "why_not"),
    [
        ([], True, True, False, False, ""),
        ([], False, False, True, False, ""),
        (["dockerd"], False, False, True, True, ""),
        (["dockerd"], False, False, True, False, "lacks dockerd, and this distribution has no apt"),
        ([], False, True, False, True, "may not use its socket"),
        ([], False, False, False, True, "does not run"),
        (["dockerd"], False, False, False, True, "lacks dockerd, and without root"),
        (["python-docker"], True, True, False, True, "lacks python-docker, and without root"),
    ],
)
def test_why_docker_cannot_be_had(
    missing: list[str], running: bool, socket: bool, root: bool, apt: bool, why_not: str
) -> None:
    found = engines.why_not(missing=missing, running=running, socket=socket, root=root, apt=apt)
    assert why_not in found
    assert bool(found) is bool(why_not)


@pytest.mark.parametrize(
    ("there", "running", "apparmor", "missing"),
    [
        ({"dockerd"}, False, False, []),
        ({"dockerd", "apparmor_parser"}, True, True, []),
        # With a kernel that has it, such an engine answers, and starts no container.
        ({"dockerd"}, True, True, ["apparmor_parser"]),
        (set(), False, True, ["dockerd", "apparmor_parser"]),
        (set(), True, True, []),  # an engine of others, reached by its socket
    ],
)
def test_what_an_engine_lacks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: set[str],
    running: bool,
    apparmor: bool,
    missing: list[str],
) -> None:
    monkeypatch.setattr(engines, "has", there.__contains__)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    place = tmp_path if apparmor else tmp_path / "none"
    assert engines.missing(running=running, apparmor=place) == [*missing, engines.SDK]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    assert engines.missing(running=running, apparmor=place) == missing


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
    found = engines.facts(at)
    assert set(found) == {"missing", "running", "version", "why_not"}
    assert found["running"] and found["version"] == "20.10.24+dfsg1"
    assert found["why_not"] == ""


@pytest.mark.parametrize("ping", [None, b"starting"])
def test_an_engine_that_is_not_well_does_not_run(
    engine: tuple[str, dict[str, bytes]], ping: bytes | None
) -> None:
    at, answers = engine
    answers |= {} if ping is None else {"/_ping": ping}
    found = engines.facts(at)
    assert not found["running"] and found["version"] == ""


def test_answers_that_are_no_object_are_an_error(engine: tuple[str, dict[str, bytes]]) -> None:
    at, answers = engine
    answers |= {"/info": b"[]"}
    with pytest.raises(ValueError, match="no object"):
        engines.get("/info", at)
    with pytest.raises(OSError, match="404"):
        engines.get("/nothing", at)


def test_without_a_socket_it_does_not_run(tmp_path: Path) -> None:
    assert not engines.facts(str(tmp_path / "none.sock"))["running"]


def test_docker_tells_versions_and_drivers_only() -> None:
    assert engines.versions(INFO, {"Components": COMPONENTS}) == {
        "docker.version": "20.10.24+dfsg1",
        "docker.storage_driver": "overlay2",
        "docker.cgroup_driver": "cgroupfs",
        "docker.runtime": "runc",
        "docker.runc": "1.1.5",
    }
    assert set(engines.versions({}, {"Components": None}).values()) == {None}


@pytest.mark.parametrize(
    ("kind", "why_not", "words"),
    [("rootfs", "", ""), ("rootfs", "it is not installed", "not installed"), ("venv", "", "root")],
)
def test_an_engine_takes_no_environment(kind: str, why_not: str, words: str) -> None:
    found = docker.why_not({"why_not": why_not}, kind)
    assert bool(found) == bool(words)
    assert words in found


def test_an_engine_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(path: str, timeout: float) -> bytes:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(engines, "ask", silent)
    with pytest.raises(Refused, match=r"(?s)the Docker engine of this host answers.*refused.*log"):
        images.DockerImage("tools", "0" * 64).holds()
