"""What members that do not train are told of each other: checked before anything is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data import pairs
from workloads.__main__ import main
from workloads._options import BadInputError
from workloads._peers import Peers

KEY = "5e" * 16
SERVER = {"role": "server", "index": 0, "host": "10.0.0.2", "ports": {"control": 29400}}
CLIENT = {"role": "client", "index": 0, "host": "10.0.0.1", "ports": {}}
TOLD: dict[str, Any] = {
    **{"role": "client", "index": 0, "members": [CLIENT, SERVER], "key": KEY},
    **{"find_s": 90.0, "silent_s": 20.0},
}


def test_a_member_knows_itself_and_the_others() -> None:
    found = Peers.parse(TOLD)
    assert found.me.role == "client" and found.find_s == 90
    assert found.of("server")[0].address("control") == ("10.0.0.2", 29400)
    assert KEY not in repr(found) and bytes.fromhex(KEY).decode() not in repr(found)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"membres": []}, "unknown key .did you mean members"),
        ({"members": None}, "must be a list of peers"),
        ({"members": [{**SERVER, "ports": {"control": 0}}]}, "role, index, host and ports"),
        ({"members": [{**SERVER, "port": 1}]}, "role, index, host and ports"),
        ({"role": "worker"}, "must be one of the members"),
        ({"key": "abc"}, "at least 16 bytes"),
        ({"find_s": 0}, "a number of seconds"),
    ],
)
def test_what_cannot_be_used_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason) as refused:
        Peers.parse({**TOLD, **change})
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    ("workload", "config", "said"),
    [
        ("pair", {}, "peers: pair has peers, and must be told of them"),
        ("spin", {"peers": TOLD}, "peers: spin has no peers"),
        ("mnist_dnn", {"peers": TOLD}, "peers: mnist_dnn has no peers"),
        ("spin", {"scratch": 3}, "scratch: must be a folder or null"),
    ],
)
def test_a_workload_is_told_what_its_topology_needs(
    workload: str,
    config: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pairs.register(monkeypatch)
    (tmp_path / "config.json").write_text(json.dumps(config))
    given = ["--config", str(tmp_path / "config.json"), "--out", str(tmp_path / "out")]
    assert main([workload, *given]) == 2
    assert said in capsys.readouterr().err
