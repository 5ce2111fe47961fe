"""A trial of `workloads/pair.py`: as the controller plans it, and what is to come of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import workloads
from controller import merge, metrics, plan
from controller.experiment import load

FOLDER = Path(__file__).parent / "workloads"
FILE = FOLDER / "pair.py"
DATAGRAMS = 20


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pair` is a workload like any other."""
    monkeypatch.setattr(workloads, "__path__", [*workloads.__path__, str(FOLDER)])
    monkeypatch.setattr(workloads, "NAMES", (*workloads.NAMES, "pair"))


def slot(folder: Path, runtime: str, network: str) -> dict[str, Any]:
    """A slot with both members on this machine."""
    asked = {
        **{"name": "t", "title": "T", "workload": "pair", "baseline": {}, "repeats": 1},
        "options": {"placement": "packed", "network": network, "datagrams": DATAGRAMS},
        "factors": {"runtime": [runtime]},
    }
    path = folder / "pair.yml"
    path.write_text(json.dumps(asked))
    (found,) = plan.make(load(path), [plan.Host("localhost", "vm", (runtime,))]).slots
    return {**asdict(found), "run": "r"}


def check(outcomes: list[dict[str, Any]], planned: dict[str, Any]) -> None:
    """Both members did their part, and are one trial."""
    (found,) = merge.slot(planned["trials"], outcomes, metrics.declared(["pair"]))
    record = found["record"]
    assert record["status"] == "ok", (record["reason"], found["stderr"])
    values = {name: metric["value"] for name, metric in record["metrics"].items()}
    assert values["rate"] > 0
    assert (values["received"], values["said"]) == (DATAGRAMS, 2)
    assert values["scratch"] >= 2 * 2**20, "each has written a MiB, and it was counted"
    assert [member["role"] for member in record["members"]] == ["client", "server"]
