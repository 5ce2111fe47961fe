"""The reference burst as covariate: it takes out the machine's speed, and no cost of a platform."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from synthetic import DOCKER, NATIVE, Effect, Synthetic, cells

from analysis import covariate, load, scenarios, tables


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tables.Tables:
    """Docker is 8 % slower, on a machine whose speed changes by 10 % from trial to trial."""
    folder = tmp_path_factory.mktemp("runs") / "drifting"
    Synthetic(cells(NATIVE, DOCKER), {"docker": Effect(1.08)}, noise=0.003).write(folder)
    rng = np.random.default_rng(5)
    for path in sorted(folder.glob("trials/*/record.json")):
        record, speed = json.loads(path.read_text()), float(rng.lognormal(0, 0.1))
        record["metrics"]["throughput"]["value"] *= speed
        for name in covariate.BURSTS:
            told = 2e9 * speed * float(rng.lognormal(0, 0.002))
            record["metrics"][name] = {"value": told, "unit": "bytes/s"}
        path.write_text(json.dumps(record))
    return tables.build(load.load(folder))


def test_it_takes_out_the_speed_of_the_machine_and_not_the_cost(found: tables.Tables) -> None:
    effect, slope = covariate.adjusted(found.trials, "throughput")["bare_metal/docker/bridge"]
    plain = found.overall[found.overall["metric"] == "throughput"].iloc[0]
    assert np.exp(effect.mean) == pytest.approx(1 / 1.08, rel=0.01)
    assert effect.low < np.log(1 / 1.08) < effect.high
    assert np.exp(effect.high - effect.low) - 1 < (plain["ratio_high"] / plain["ratio_low"] - 1) / 5
    assert slope == pytest.approx(1.0, abs=0.1)


def test_it_is_named_and_stands_beside_the_plain_answer(found: tables.Tables) -> None:
    (table,) = [one for one in scenarios.tables(found) if "covariate" in one.title]
    assert table.rows[0][:2] == ("docker/bridge", "Throughput")
    assert "no verdict" in table.text


def test_without_bursts_there_is_none(tmp_path: Path) -> None:
    quiet = tables.build(load.load(Synthetic(cells(NATIVE, DOCKER)).write(tmp_path / "quiet")))
    assert covariate.adjusted(quiet.trials, "throughput") == {}
