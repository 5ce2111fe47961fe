"""One record from what each member left, with truth that is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller import merge, metrics
from tests.conftest import lone

WORKLOAD = "tf_image_classification"
LEVELS = {"distribution": "ring", "workers": 2, "servers": 0, "workload": WORKLOAD}
DECLARED = metrics.declared([WORKLOAD])


def steps(begin: float, count: int, seconds: float, exchange: float = 0.0) -> str:
    rows = [
        {
            **{"phase": "measured", "mono": begin + n * seconds, "duration_s": seconds},
            **{"items": 8, "exchange_s": exchange, "worker": 0, "step": n + 1},
        }
        for n in range(count)
    ]
    return "\n".join(json.dumps(row) for row in rows)


def part(role: str, index: int, host: str, text: str = "", **more: Any) -> dict[str, Any]:
    metrics = {
        "elapsed": {"value": 10.0 + index, "unit": "s"},
        "cpu": {"value": 3.0, "unit": "s"},
        "throughput": {"value": 99.0, "unit": "images/s"},
        "flops": {"value": 990.0, "unit": "FLOP/s"},
        "step_median": {"value": 2.0 + index, "unit": "s"},
        "parameters": {"value": 7.0 + index, "unit": "1"},
        "unheard_of": {"value": 5.0 + index, "unit": "1"},
    }
    record = {
        **{"trial": "c-r1", "role": "measured", "levels": LEVELS, "status": "ok", "reason": None},
        **{"clock": {"launched": 0.0, "finished": 10.0}, "metrics": metrics, "phases": {}},
        **{"flags": [{"name": "steal", "detail": "d"}], "drift": [], "beside": None},
        "member": {"role": role, "index": index, "host": host},
        "workload": {"cluster": more.pop("cluster", {})},
        **more,
    }
    return {
        **{"record": record, "steps": text, "trace": f"trace of {index}", "usage": [{"mono": 1.0}]},
        **{"stdout": f"out of {host}", "stderr": ""},
    }


def test_a_lone_trial_is_what_its_member_left() -> None:
    alone = part("worker", 0, "n1", steps(0, 2, 1.0))
    found = merge.trial([alone], DECLARED[WORKLOAD])
    assert found["record"]["metrics"]["throughput"]["value"] == 99.0
    assert "member" not in found["record"]
    assert found["usage"] == [{"mono": 1.0, "host": "n1"}]


def test_what_others_used_is_the_sum_over_hosts() -> None:
    """The first member on each host says it, for all that are there."""
    parts = [part("worker", n, host, steps(0, 2, 1.0)) for n, host in enumerate(["n1", "n1", "n2"])]
    for said, index in ((1.5, 0), (2.0, 2)):
        parts[index]["record"]["metrics"]["cpu_others"] = {"value": said, "unit": "s"}
    found = merge.trial(parts, DECLARED[WORKLOAD])["record"]
    assert found["metrics"]["cpu_others"] == {"value": 3.5, "unit": "s"}


def test_the_figures_of_a_cluster_are_on_the_clock_of_the_chief() -> None:
    paths = {"worker 0": {"worker 1": 100.0}, "worker 1": {"worker 0": 80.0}}
    told = {"paths": paths, "bytes_per_step": 40.0}
    parts = [
        part("worker", 0, "n1", steps(0.0, 10, 1.25, 0.5), cluster={**told, "clock_offset_s": 0.0}),
        # Its host's clock is 1000 s ahead; on the chief's it began half a second late.
        part(
            "worker", 1, "n2", steps(1000.5, 10, 1.25, 0.5),
            cluster={**told, "clock_offset_s": -1000.0},
        ),
    ]  # fmt: skip
    found = merge.trial(parts, DECLARED[WORKLOAD])
    values = {name: metric["value"] for name, metric in found["record"]["metrics"].items()}
    assert values["throughput"] == pytest.approx(160 / 13.0)
    assert (values["skew"], values["straggler"]) == (0.5, 1.0)
    assert (values["elapsed"], values["cpu"]) == (11.0, 6.0)
    assert (values["step_median"], values["parameters"], values["unheard_of"]) == (2.5, 7.0, 5.0)
    assert values["flops"] == pytest.approx(10 * values["throughput"])
    units = {name: metric["unit"] for name, metric in found["record"]["metrics"].items()}
    assert (units["limit"], units["skew"], units["goodput"]) == ("images/s", "s", "bytes/s")
    # 0.75 s of computing and 2 (n - 1) / n x 40 bytes at 80 bytes/s.
    assert values["limit"] == pytest.approx(16 / (0.75 + 40 / 80))
    assert values["of_limit"] == pytest.approx(values["throughput"] / values["limit"])
    rows = [json.loads(line) for line in found["steps"].splitlines()]
    assert max(row["mono"] for row in rows) == pytest.approx(0.5 + 9 * 1.25)
    assert found["stdout"].startswith("== worker 0 on n1\nout of n1\n== worker 1 on n2\n")
    assert [m["host"] for m in found["record"]["members"]] == ["n1", "n2"]
    assert len(found["record"]["flags"]) == 1


def declare(name: str, combine: str, role: str = "") -> dict[str, Any]:
    rest = {"unit": "1", "better": "", "headline": False}
    return {"name": name, "label": name, "combine": combine, "role": role, **rest}


def test_client_and_server_combine_as_their_metrics_declare() -> None:
    def one(role: str, index: int, **values: float) -> dict[str, Any]:
        found = part(role, index, f"{role}{index}")
        found["record"]["metrics"] = {k: {"value": v, "unit": "1"} for k, v in values.items()}
        found["record"]["workload"]["environment"] = {"of": role}
        return found

    parts = [
        one("server", 1, lost=3.0, cpu=1.0),
        one("server", 0, lost=5.0, cpu=2.0, version=9.0),
        one("client", 0, rate=7.0, lost=100.0, cpu=4.0),
    ]
    declared = {
        "items": None,
        "metrics": [
            declare("rate", "chief"),
            declare("lost", "max", "server"),
            declare("version", "chief", "server"),
            declare("cpu", "total"),
        ],
    }
    roster = [{"role": "client", "index": 0}, *({"role": "server", "index": n} for n in (0, 1))]
    trials = [{**{"trial": "c-r1", "role": "measured", "levels": LEVELS}, "members": roster}]
    (found,) = merge.slot(trials, parts, {WORKLOAD: declared})
    values = {name: metric["value"] for name, metric in found["record"]["metrics"].items()}
    assert values == {"rate": 7.0, "lost": 5.0, "version": 9.0, "cpu": 7.0}
    those = found["record"]["members"]
    assert [m["role"] for m in those] == ["client", "server", "server"]
    assert [m["environment"]["of"] for m in those] == ["client", "server", "server"]
    assert found["stdout"].startswith("== client 0 on client0\n")


def members(**hosts: str) -> list[dict[str, Any]]:
    """Of workers and servers by short names: w0, s1."""
    roles = {"w": "worker", "s": "server"}
    return [{"role": roles[k[0]], "index": int(k[1]), "host": host} for k, host in hosts.items()]


def star(rates: dict[str, float]) -> dict[str, dict[str, float]]:
    """Paths of one server with its workers, as fast there as back."""
    back = {worker: {"server 0": rate} for worker, rate in rates.items()}
    return {"server 0": dict(rates), **back}


STAR = star({"worker 0": 900.0, "worker 1": 50.0, "worker 2": 40.0})
RING = {
    "worker 0": {"worker 2": 90.0},
    "worker 1": {"worker 0": 80.0},
    "worker 2": {"worker 1": 70.0},
}


@pytest.mark.parametrize(
    ("mode", "servers", "hosts", "paths", "expected"),
    [
        # The slowest pair of neighbours; 2 (3 - 1) / 3 of 300 bytes.
        ("ring", 0, {"w0": "a", "w1": "b", "w2": "c"}, RING, (70.0, 400.0)),
        # Three workers elsewhere share the server's link.
        ("ps_sync", 1, {"w0": "b", "w1": "c", "w2": "d", "s0": "a"}, STAR, (990.0, 900.0)),
        # One worker is on the server's own host: its bytes are not on the link.
        ("ps_async", 1, {"w0": "a", "w1": "b", "w2": "c", "s0": "a"}, STAR, (90.0, 600.0)),
        # All on one host: there is no link but the host's own.
        ("ps_sync", 1, {"w0": "a", "w1": "a", "w2": "a", "s0": "a"}, STAR, (990.0, 900.0)),
        ("ring", 0, {"w0": "a"}, {}, None),
    ],
)  # fmt: skip
def test_the_busiest_link_and_the_bytes_on_it(
    mode: str, servers: int, hosts: dict[str, str], paths: dict[str, Any], expected: Any
) -> None:
    levels = {"distribution": mode, "servers": servers, "workers": 3}
    assert merge.link(levels, members(**hosts), paths, 300.0) == expected


def test_of_two_servers_the_slower_link_counts() -> None:
    paths = {
        "server 0": {"worker 0": 50.0, "worker 1": 60.0},
        "server 1": {"worker 0": 90.0, "worker 1": 20.0},
        "worker 0": {"server 0": 70.0, "server 1": 70.0},
        "worker 1": {"server 0": 70.0, "server 1": 70.0},
    }
    levels = {"distribution": "ps_sync", "servers": 2, "workers": 2}
    hosts = members(w0="a", w1="b", s0="c", s1="d")
    assert merge.link(levels, hosts, paths, 300.0) == (110.0, 300.0)


def failed(cause: str, message: str) -> dict[str, Any]:
    return {"status": "failed", "reason": {"cause": cause, "message": message}}


def test_the_reason_is_that_of_the_member_that_failed_of_itself() -> None:
    parts = [
        part("worker", 0, "n1", **failed("peer", "worker 1 went away")),
        part("worker", 1, "n2", **failed("memory", "too much")),
        part("server", 0, "n1", **failed("peer", "worker 1 went away")),
    ]
    found = merge.trial(parts, DECLARED[WORKLOAD])["record"]
    assert found["status"] == "failed" and found["metrics"] == {}
    assert found["reason"] == {"cause": "memory", "message": "too much\n(worker 1 on n2)"}


def slot_of(beside: str, **more: Any) -> dict[str, Any]:
    measured = part("worker", 0, "n1", steps(100, 10, 1.0))
    background = part("worker", 0, "n1", beside, **more)
    background["record"] |= {"trial": "c-r1-beside", "role": "background"}
    trials = [
        {"trial": "c-r1", "role": "measured", "levels": LEVELS, "members": lone("n1")},
        {"trial": "c-r1-beside", "role": "background", "levels": {"workload": "spin"}},
    ]
    trials[1]["members"] = lone("n1")
    declared = metrics.declared([WORKLOAD, "spin"])
    found = merge.slot(trials, [background, measured], declared)
    assert [outcome["record"]["role"] for outcome in found] == ["measured", "background"]
    record: dict[str, Any] = found[0]["record"]
    return record


def test_a_neighbour_that_ran_all_the_time_stands_in_the_record() -> None:
    record = slot_of(steps(90, 60, 0.5))
    assert (record["status"], record["beside"]["trial"]) == ("ok", "c-r1-beside")
    assert record["beside"]["overlap"] == pytest.approx(1.0)
    assert record["beside"]["rate"] == {"value": pytest.approx(16.0), "unit": "hashes/s"}


@pytest.mark.parametrize(("count", "status"), [(39, "ok"), (38, "void"), (0, "void")])
def test_below_95_percent_of_overlap_a_trial_is_void(count: int, status: str) -> None:
    # From 90.0 in steps of half a second: 39 end at 109.5, which covers 95 % of 100..110.
    record = slot_of(steps(90, count, 0.5))
    assert record["status"] == status
    if status == "void":
        assert record["reason"]["cause"] == "overlap"


def test_a_neighbour_that_failed_says_why() -> None:
    record = slot_of(steps(90, 22, 0.5), **failed("memory", "it needed more"))
    assert record["status"] == "void"
    assert record["reason"]["message"].endswith("less than 95%: it needed more")


def test_two_of_a_duet_are_compared_by_the_time_in_which_both_were_measured() -> None:
    """Steps that begin before it, or end after it, count by their share in it."""
    slow, quick = (dueted(name, "ok") for name in "ab")
    slow["steps"] = rows((10.0, 2.0, 4), (12.0, 2.0, 4), (14.0, 2.0, 4))  # 10 to 16 s
    quick["steps"] = rows((11.0, 1.0, 4), (12.0, 1.0, 4), (13.0, 1.0, 4))  # 11 to 14 s
    merge.duet(slow, quick, "hashes")
    rates = [one["record"]["metrics"]["rate_together"] for one in (slow, quick)]
    assert rates == [{"value": 2.0, "unit": "hashes/s"}, {"value": 4.0, "unit": "hashes/s"}]
    assert [one["record"]["duet"] for one in (slow, quick)] == [
        {"side": 1, "cpus": "0", "trial": "b", "seconds": 3.0, "share": 0.5},
        {"side": 1, "cpus": "0", "trial": "a", "seconds": 3.0, "share": 1.0},
    ]


def test_two_of_a_duet_that_never_met_are_void_and_one_that_failed_leaves_the_other() -> None:
    both = [dueted(name, "ok") for name in "ab"]
    both[0]["steps"], both[1]["steps"] = rows((1.0, 1.0, 4)), rows((3.0, 1.0, 4))
    merge.duet(*both, "hashes")
    for one in both:
        assert (one["record"]["status"], one["record"]["reason"]["cause"]) == ("void", "overlap")
    failed, other = dueted("a", "failed"), dueted("b", "ok")
    other["steps"] = rows((1.0, 1.0, 4))
    merge.duet(failed, other, "hashes")
    assert other["record"]["status"] == "ok"
    assert "rate_together" not in other["record"]["metrics"]


def dueted(trial: str, status: str) -> dict[str, Any]:
    record = {"trial": trial, "status": status, "reason": None, "metrics": {}}
    return {"record": {**record, "duet": {"side": 1, "cpus": "0"}}, "steps": ""}


def rows(*steps: tuple[float, float, int]) -> str:
    """Measured steps: when each began (s), how long it took (s), its items."""
    keys = ("mono", "duration_s", "items")
    found = [{"phase": "measured", **dict(zip(keys, step, strict=True))} for step in steps]
    return "\n".join(map(json.dumps, found))
