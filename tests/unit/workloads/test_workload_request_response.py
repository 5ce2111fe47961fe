"""A client and a server of `request_response`, real processes on loopback, and what they leave."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from peers import KEY, Process, ports, until

import workloads
from tests.conftest import PATIENCE_S
from workloads import _ends, request_response
from workloads.__main__ import main
from workloads._options import BadInputError

NAME = "request_response"
SHORT = {"warmup": 1, "duration": 1}


def start(
    folder: Path,
    options: dict[str, Any],
    host: str = "127.0.0.1",
    roles: tuple[str, ...] = ("client", "server"),
    **told: dict[str, Any],
) -> dict[str, Process]:
    """Both members; `told` changes what one of them is told."""
    free = dict(zip(("test", "control"), ports(2), strict=True))
    members = [
        {"role": role, "index": 0, "host": host, "ports": listens}
        for role, listens in (("client", {}), ("server", free))
    ]
    common = {"index": 0, "members": members, "key": KEY, "find_s": 60.0, "silent_s": PATIENCE_S}
    return {
        role: Process(
            NAME, folder / role, options, peers={**common, "role": role} | told.get(role, {})
        )
        for role in roles
    }


@pytest.mark.parametrize(
    ("options", "rate"),
    [({}, "transactions"), ({"connection": "new", "request_size": 300}, "connections")],
)
def test_latency_and_rate_of_a_client_and_a_server(
    tmp_path: Path, options: dict[str, Any], rate: str
) -> None:
    both = start(tmp_path, {**SHORT, **options})
    client, server = (both[role].well().result() for role in ("client", "server"))
    found = {name: scalar["value"] for name, scalar in client["scalars"].items()}
    declared = {metric.name for metric in workloads.workload(NAME).METRICS}
    other = {"transactions", "connections"} - {rate}
    assert set(found) | set(server["scalars"]) == declared - other
    order = [found[f"latency_{name}"] for name in ("p50", "p90", "p99", "p999")]
    assert order[0] > 0 and order == sorted(order)
    # One at a time: the rate follows from the mean, and a step's own work.
    assert found[rate] * found["latency_mean"] <= 1.0001
    steps = both["client"].steps()
    done = sum(step["items"] for step in steps)
    assert done == pytest.approx(found[rate] * sum(step["duration_s"] for step in steps), rel=0.5)
    assert found["cpu_client"] > 0 and server["scalars"]["cpu_server"]["value"] > 0
    assert found["host_cpu_client"] >= found["softirq_client"] >= 0
    route = client["environment"]["route"]
    assert (route["device"], "tso" in route["offloads"]) == ("lo", True)
    assert (route["own"], route["peer"]) == ("127.0.0.1", "127.0.0.1")
    assert route["mtu"] >= route["path_mtu"] - 1 > 0 and route["congestion_control"]
    assert abs(server["cluster"]["clock_offset_s"]) < 1, "one clock"


def test_a_name_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine's name service is no part of a new connection."""
    start(tmp_path, {**SHORT, "connection": "new"}, host="localhost", roles=("server",))
    given = json.loads((tmp_path / "server/config.json").read_text())
    given["peers"]["role"] = "client"
    (tmp_path / "config.json").write_text(json.dumps(given))
    number = given["peers"]["members"][1]["ports"]["test"]
    asked = []
    connect = socket.create_connection

    def noted(address: tuple[str, int], *more: Any) -> socket.socket:
        asked.extend([address[0]] if address[1] == number else [])
        return connect(address, *more)

    monkeypatch.setattr(socket, "create_connection", noted)
    here = ["--config", str(tmp_path / "config.json"), "--out", str(tmp_path / "out")]
    assert main([NAME, *here]) == 0
    assert set(asked) == {"127.0.0.1"} and len(asked) > 1


def test_a_service_that_was_not_gone_through_is_a_failure_of_both(tmp_path: Path) -> None:
    both = start(tmp_path, {**SHORT, "through": "service"})
    for role in ("client", "server"):
        _, said = both[role].end()
        assert "asked to go through a service; connected to the server itself, 127.0.0.1" in said


def test_who_does_not_hold_the_key_is_no_peer(tmp_path: Path) -> None:
    both = start(tmp_path, SHORT, client={"key": "6b" * 16, "find_s": 1.5}, server={"find_s": 4.0})
    for role, other in (("client", "server 0"), ("server", "client 0")):
        status, said = both[role].end()
        assert status == 75
        assert said.startswith(f"{NAME}: peers not found within ") and other in said


def test_a_server_that_is_killed_is_named(tmp_path: Path) -> None:
    both = start(tmp_path, {"duration": 600})
    log = tmp_path / "client/out/steps.jsonl"
    until(lambda: log.exists() and log.stat().st_size, "step")
    both["server"].process.kill()
    status, said = both["client"].end()
    assert status == 75 and "server 0 at 127.0.0.1" in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"connection": "old"}, "connection: must be one of kept, new"),
        ({"request_size": 0}, "request_size: must be at least 1"),
        ({"response_size": 2**21}, "response_size: must be at most 1048576"),
        ({"duration": 0}, "duration: must be at least 1"),
    ],
)
def test_bad_options_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        request_response.Options.parse(given)


def test_percentiles_are_of_the_nearest_rank() -> None:
    ordered = list(range(1, 1001))
    found = [request_response.percentile(ordered, share) for share in (0.5, 0.9, 0.99, 0.999)]
    assert found == [500, 900, 990, 999]
    assert request_response.percentile([7], 0.999) == 7


def test_what_the_host_used() -> None:
    # In the form of Linux 6.18; guest time, the ninth, is within user.
    text = "cpu  1000 20 300 9000 50 10 400 70 600 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"
    busy, softirq = _ends.host_cpu(text)
    assert (busy * _ends.TICK, softirq * _ends.TICK) == pytest.approx((1730, 400))
