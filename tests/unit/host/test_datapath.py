"""What Cilium's agent says of itself, by what a real one answered (tests/data/cilium)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from typing import Any

import pytest
from strata.errors import Refused
from strata.host import datapath

RECORDED = Path("tests/data/cilium")
AGENT = json.loads((RECORDED / "healthz.json").read_text())
RUNS = {
    "agent host routing": "Legacy",
    "agent kube-proxy replacement": "False",
    "agent masquerading": "iptables",
    "agent state": "Ok",
}


@contextmanager
def answering(path: Path, status: int, answer: bytes) -> Iterator[str]:
    """A socket at which somebody answers as the agent would."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/v1/healthz"
            self.send_response(status if known else 404)
            self.end_headers()
            self.wfile.write(answer if known else b"{}")

        def log_message(self, *_: Any) -> None: ...

    class Server(UnixStreamServer):
        def get_request(self) -> tuple[Any, Any]:
            return self.socket.accept()[0], ("agent", 0)

    with Server(str(path), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield str(path)
        server.shutdown()
        serving.join()


def said(tmp_path: Path, answer: bytes, status: int = 200) -> dict[str, str]:
    with answering(tmp_path / "agent.sock", status, answer) as path:
        return datapath.facts({}, [], path)


def test_what_a_real_agent_answers_is_read(tmp_path: Path) -> None:
    found = said(tmp_path, json.dumps(AGENT).encode())
    assert found == RUNS
    datapath.check(RUNS, found)


@pytest.mark.parametrize(
    ("part", "key", "value", "name"),
    [
        ("host-routing", "mode", "BPF", "host routing"),
        ("kube-proxy-replacement", "mode", "True", "kube-proxy replacement"),
        ("masquerading", "mode", "BPF", "masquerading"),
        ("cilium", "state", "Failure", "state"),
    ],
)
def test_an_agent_that_does_otherwise_is_refused_with_both_values(
    tmp_path: Path, part: str, key: str, value: str, name: str
) -> None:
    other = json.dumps({**AGENT, part: {**AGENT[part], key: value}}).encode()
    was = RUNS[f"agent {name}"]
    found = said(tmp_path, other)
    with pytest.raises(Refused, match=f"asked: agent {name} is {was}; running: {value}\n"):
        datapath.check(RUNS, found)
    # As a network that wants it so is refused what this one has.
    with pytest.raises(Refused, match=f"asked: agent {name} is {value}; running: {was}\n"):
        datapath.check({f"agent {name}": value}, RUNS)


@pytest.mark.parametrize(
    ("status", "answer"), [(200, b"no answer"), (200, b"[]"), (500, b"{}")]
)  # fmt: skip
def test_an_agent_that_says_nothing_of_itself_is_none(
    tmp_path: Path, status: int, answer: bytes
) -> None:
    assert set(said(tmp_path, answer, status).values()) == {"none"}


def test_where_nobody_answers_it_is_none(tmp_path: Path) -> None:
    assert set(datapath.facts({}, [], str(tmp_path / "nobody.sock")).values()) == {"none"}


def test_programs_are_named_without_file_and_device() -> None:
    told = {
        way: json.loads((RECORDED / f"cilium_vxlan_{way}.json").read_text())
        for way in ("ingress", "egress")
    }
    assert datapath.programs(told) == "cil_from_overlay ingress, cil_to_overlay egress"
    assert datapath.programs({"ingress": []}) == "none"
