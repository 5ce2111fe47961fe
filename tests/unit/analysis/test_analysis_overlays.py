"""The overlay view: what networks cost, and how much of the training the wire explains."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from synthetic import NATIVE, Synthetic

from analysis import ends, overlays, page, tables, terminal
from analysis.load import load

HOST, VXLAN = NATIVE, {**NATIVE, "network": "vxlan"}
CASES: tuple[dict[str, Any], ...] = (
    {"workload": "iperf3", "protocol": "tcp", "direction": "to_server"},
    {"workload": "request_response", "connection": "kept"},
    {
        **{"workload": "tf_image_classification", "distribution": "ring", "workers": 2},
        "batch_size": 32,
    },
)
MOVED, REST = 100e6, 0.01
# Of the hosts' own network and of VXLAN: bit/s, median latency (s), CPU seconds for a GB.
WIRE = {"host": (10e9, 100e-6, 1.0), "vxlan": (5e9, 200e-6, 2.0)}
BANDWIDTH, LATENCY = MOVED * (8 / 5e9 - 8 / 10e9), 100e-6


def measured(levels: dict[str, Any], number: int) -> dict[str, tuple[float, str]]:
    """What a trial of round `number` measures: all of a round share the speed of its machine.

    On one host both networks are as fast.
    """
    rate, latency, cpu = WIRE[levels["network"] if levels["placement"] == "spread" else "host"]
    if levels["workload"] == "iperf3":
        costs = {f"host_cpu_{end}": (cpu, "s/GB") for end in ("client", "server")}
        return {"throughput": (rate, "bit/s"), **costs}
    if levels["workload"] == "request_response":
        return {"latency_p50": (latency, "s")}
    step = 1.0 + 0.05 * number
    if levels["network"] == "vxlan":
        step += BANDWIDTH + LATENCY + REST
    return {"throughput": (64 / step, "images/s"), "bytes_moved": (MOVED, "bytes")}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made(tmp_path, *(case | {"placement": "spread"} for case in CASES))


def made(tmp_path: Path, *cases: dict[str, Any]) -> Path:
    """The folder of a run with these cases on both networks, six rounds of each."""
    cells = [{**case, **network, "label": ""} for case in cases for network in (HOST, VXLAN)]
    run = {"baseline": {"network": "host"}, "factors": ["network"]}
    folder = Synthetic(cells, **run).write(tmp_path / "run")
    for path in folder.glob("trials/*/record.json"):
        record = json.loads(path.read_text())
        found = measured(record["levels"], record["round"])
        record["metrics"] = {name: {"value": v, "unit": unit} for name, (v, unit) in found.items()}
        mtu = 1450 if record["levels"]["network"] == "vxlan" else 1500
        record["members"] = [
            {
                **{"role": "client", "index": 0, "host": "node1", "status": "ok", "reason": None},
                **{key: record[key] for key in ("clock", "metrics", "phases")},
                **{"cluster": {}, "environment": {"route": {"path_mtu": mtu}}},
            }
        ]
        path.write_text(json.dumps(record))
    document = json.loads((folder / "run.json").read_text())
    document["networks"] = {"host": {"headers": 0}, "vxlan": {"headers": 50}}
    (folder / "run.json").write_text(json.dumps(document))
    return folder


def test_each_network_stands_beside_its_protocol_and_the_hosts(run: Path) -> None:
    (costs, _) = overlays.tables(tables.build(load(run)))
    (row,) = costs.rows
    told = dict(zip(costs.head, row, strict=True))
    assert told["Network"] == "vxlan"
    assert (told["MTU"], told["Headers"]) == ("1450", "50 B, 3.3 %")
    assert told["Throughput"].startswith("\N{MINUS SIGN}50.0 %")
    assert told["Latency"].startswith("+100 %")
    assert told["CPU for a GB, client"] == told["CPU for a GB, server"] == told["Latency"]
    assert told["Training"].startswith("\N{MINUS SIGN}7.")


def test_pairs_are_counted_of_what_knows_the_metric(run: Path) -> None:
    """A case of another workload is no hole in this one."""
    overall = tables.build(load(run)).overall
    assert set(overall["planned"]) == {6} and set(overall["cases_planned"]) == {1}


def test_a_path_on_one_host_has_a_row_of_its_own(tmp_path: Path) -> None:
    both = [CASES[0] | {"placement": placement} for placement in ("spread", "packed")]
    (costs,) = overlays.tables(tables.build(load(made(tmp_path, *both))))
    between, within = costs.rows
    assert (between[0], within[0]) == ("vxlan, between hosts", "vxlan, on one host")
    assert between[3].startswith("\N{MINUS SIGN}50.0 %") and within[3].startswith("0.0 %")
    assert within[1:3] == ("\N{EN DASH}", "\N{EN DASH}"), "no packet has headers there"


def test_what_the_wire_explains_of_training_is_told_from_the_rest(run: Path) -> None:
    found = tables.build(load(run))
    (cost,) = overlays.attribution(found, overlays._networks(found))
    assert cost.step == pytest.approx(1.175)  # the mean over the rounds
    assert cost.longer.mean == pytest.approx(BANDWIDTH + LATENCY + REST)
    assert cost.bandwidth.mean == pytest.approx(BANDWIDTH)
    assert cost.latency.mean == pytest.approx(LATENCY)
    assert (cost.rest.mean, cost.rest.low) == pytest.approx((REST, REST))
    assert cost.share == "89 %"


def test_a_wire_that_was_measured_both_ways_at_once_has_half_for_each_way(run: Path) -> None:
    for path in [*run.glob("trials/*/record.json"), run / "plan.json"]:
        path.write_text(path.read_text().replace("to_server", "both"))
    found = tables.build(load(run))
    (cost,) = overlays.attribution(found, overlays._networks(found))
    assert cost.bandwidth.mean == pytest.approx(2 * BANDWIDTH)


def test_a_round_without_its_wire_explains_nothing(run: Path) -> None:
    for path in run.glob("trials/*-r3/record.json"):
        record = json.loads(path.read_text())
        if record["levels"]["workload"] == "request_response":
            record |= {"status": "failed", "reason": {"cause": "exit", "message": "no"}}
            path.write_text(json.dumps(record))
    found = tables.build(load(run))
    (cost,) = overlays.attribution(found, overlays._networks(found))
    assert cost.longer.freedom == 4, "five rounds are left of six"


def test_the_page_and_the_terminal_show_it(run: Path) -> None:
    found = tables.build(load(run))
    html, lines = page.render(found), terminal.summary(found)
    for title in ("What each network costs", "How much of the training the wire explains"):
        assert f"<h3>{title}</h3>" in html
        assert title in lines
    assert max(map(len, lines)) <= 100


def test_a_run_over_one_network_has_none_of_it(tmp_path: Path) -> None:
    case = {**CASES[0], "label": "", "placement": "spread"}
    cells = [{**case, **NATIVE, "streams": streams} for streams in (1, 4)]
    run = {"baseline": {"streams": 1}, "factors": ["streams"]}
    folder = Synthetic(cells, **run).write(tmp_path / "run")
    assert overlays.tables(tables.build(load(folder))) == []


WALK = ("vxlan", "macvlan", "bridge") * 3 + ("macvlan", "vxlan", "bridge", "macvlan")
SLOWER = {"host": 1.0, "vxlan": 0.5, "macvlan": 0.8, "bridge": 0.9}


def visited(tmp_path: Path, left: float) -> Path:
    """A run with a round in each visit; directly after macvlan a network has `left` of its rate."""
    platforms = [{**NATIVE, "network": network} for network in SLOWER]
    cells = [{**CASES[0], "placement": "spread", **each, "label": ""} for each in platforms]
    run = {"baseline": {"network": "host"}, "factors": ["network"], "repeats": len(WALK)}
    folder = Synthetic(cells, **run).write(tmp_path / "run")
    chance = random.Random(1)
    for path in folder.glob("trials/*/record.json"):
        record = json.loads(path.read_text())
        network, visit = record["levels"]["network"], record["repetition"] - 1
        if network not in ("host", WALK[visit]):
            (folder / "trials" / record["trial"]).rename(folder / record["trial"])
            continue
        rate = SLOWER[network] * chance.gauss(1, 0.01)
        rate *= left if network != "host" and visit and WALK[visit - 1] == "macvlan" else 1
        record["metrics"] = {"throughput": {"value": 1e9 * rate, "unit": "bit/s"}}
        path.write_text(json.dumps(record))
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    begun = {"event": "setting_begun", "wall": "2025-01-01T00:00:00Z", "mono": 1.0}
    told, seen = [], 0
    for event in events:
        if event["event"] == "slot_started" and int(event["slot"][1:]) // len(cells) == seen:
            told.append({**begun, "setting": WALK[seen], "block": f"b{seen + 1}"})
            seen += 1
        told.append(event)
    (folder / "journal.jsonl").write_text("".join(json.dumps(each) + "\n" for each in told))
    return folder


@pytest.mark.parametrize(("left", "found"), [(1.0, False), (0.7, True)])
def test_what_a_network_leaves_to_the_next_is_told_from_chance(
    tmp_path: Path, left: float, found: bool
) -> None:
    """Of the figures in the record and the visits in the journal."""
    (table,) = (
        each
        for each in overlays.tables(tables.build(load(visited(tmp_path, left))))
        if each.title == "What a network leaves to the next"
    )
    assert table.head == ("After", "Throughput")
    *rows, (name, chance) = table.rows
    assert [row[0] for row in rows] == ["bridge", "macvlan", "vxlan"]
    assert name.startswith("p") and (float(chance) < 1e-6) == found
    after = dict(rows)["macvlan"]
    assert after.startswith("\N{MINUS SIGN}2") == found


# Seconds: of the hosts' own network, of the tunnel, and of either end on it.
OWN, TUNNEL, CLIENT, SERVER = 100e-6, 40e-6, 5e-6, 12e-6
AT = {"both": CLIENT + SERVER, "client_only": CLIENT, "server_only": SERVER}


def test_what_a_network_costs_is_told_for_each_end(tmp_path: Path) -> None:
    case = {"workload": "request_response", "connection": "kept", "placement": "spread"}
    usual = {**case, "ends": "both", "through": "address", "label": ""}
    cells = [
        usual | HOST,
        *(usual | VXLAN | {"ends": ends} for ends in AT),
        usual | VXLAN | {"through": "service"},
    ]
    compared = {"network": "host", "ends": "both", "through": "address"}
    folder = Synthetic(cells, baseline=compared, factors=list(compared)).write(tmp_path / "run")
    for path in folder.glob("trials/*/record.json"):
        record = json.loads(path.read_text())
        levels, drift = record["levels"], 1e-6 * record["round"]
        more = TUNNEL + AT[levels["ends"]] if levels["network"] == "vxlan" else 0.0
        more *= 1 if levels["through"] == "address" else 9
        record["metrics"] = {"latency_p50": {"value": OWN + drift + more, "unit": "s"}}
        path.write_text(json.dumps(record))
    found = tables.build(load(folder))
    assert set(found.trials["short"]) == {
        *("host", "vxlan", "vxlan client_only", "vxlan server_only", "vxlan service"),
    }
    (part,) = ends.parts(found)
    told = (part.client.mean, part.server.mean, part.between.mean)
    assert told == pytest.approx((CLIENT, SERVER, TUNNEL))
    assert (part.network, part.what, part.client.freedom) == ("vxlan", "Latency", 5)
    (table,) = (one for one in overlays.tables(found) if "At which end" in one.title)
    assert table.rows[0][:4] == ("vxlan", "all", "Latency", "103.5 µs")
    assert table.rows[0][4].startswith("5.000 µs (")
