"""On the controller: from what each member of a trial left to the one record of the trial.

The figures of a cluster are defined in docs/distributed.md. Times of different hosts are
compared on the clock of the chief, worker 0: each member knows its offset to it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from strata.trial import disturbance

from workloads._declare import Metric

Outcome = dict[str, Any]
Row = dict[str, Any]

# Of the measured window of a trial, the share that its background job must have run beside.
OVERLAP = 0.95
# What the two trials of a duet are compared by.
RATE = "rate_together"
# Reasons that follow from another member's.
SECONDARY = ("peer", "controller_lost")
# How a metric follows from those of the members of its role, as `workloads._declare.Combine` says;
# those that follow in another way are those of the first of them.
OVER_MEMBERS: dict[str, Callable[[list[float]], float]] = {
    "max": max,
    "mean": statistics.mean,
    "median": statistics.median,
    "sum": sum,
}


def metrics_of_clusters(items: str) -> tuple[Metric, ...]:
    """What is measured of workers that share their gradients."""
    return (
        Metric("exchange", "Exchange in a step", "s", "lower"),
        Metric("goodput", "Goodput of the link", "bytes/s", "higher"),
        Metric("bytes_moved", "Bytes on the link in a step", "bytes"),
        Metric("limit", "What the link allows", f"{items}/s"),
        Metric("of_limit", "Share of the limit", "1"),
        Metric("skew", "Skew of the workers' begins", "s"),
        Metric("straggler", "Slowest worker / median worker", "1"),
    )


def metrics_of_duets(own: Iterable[Metric], items: str | None) -> list[Metric]:
    """What is measured of both trials of a duet: how fast each was while both were measured, and
    their `own` metrics, which are no headline: a part of their windows is after the other's end."""
    rate = Metric(RATE, "Rate while both measured", f"{items}/s", "higher", headline=True)
    return [rate, *(replace(metric, headline=False) for metric in own)]


def slot(
    trials: list[dict[str, Any]], outcomes: list[Outcome], declared: dict[str, dict[str, Any]]
) -> list[Outcome]:
    """One outcome for each trial of a slot, from those of its members, in the slot's order.

    `declared` is the key `workloads` of run.json.
    """
    merged = {}
    for asked in trials:
        places = [(member["role"], member["index"]) for member in asked["members"]]
        parts = [o for o in outcomes if o["record"]["trial"] == asked["trial"]]
        parts.sort(key=lambda part: places.index(_who(part)))
        merged[asked["trial"]] = trial(parts, declared[asked["levels"]["workload"]])
    background = [t for t in trials if t["role"] == "background"]
    for asked in trials:
        if asked["role"] == "measured" and background:
            items = declared[background[0]["levels"]["workload"]]["items"]
            judge(merged[asked["trial"]], merged[background[0]["trial"]], items)
    both = [asked for asked in trials if asked.get("side")]
    if both:
        items = declared[both[0]["levels"]["workload"]]["items"]
        one, other = (merged[asked["trial"]] for asked in both)
        duet(one, other, items)
    return list(merged.values())


def trial(parts: list[Outcome], declared: dict[str, Any]) -> Outcome:
    """The outcome of one trial from its members', the chief's first. That of a lone member is the
    trial's own.

    `declared` is what run.json says of its workload.
    """
    found = parts[0]["record"]
    members = [{**part["record"].pop("member"), **_about(part["record"])} for part in parts]
    offsets = [member["cluster"].get("clock_offset_s", 0.0) for member in members]
    usage = [
        {**sample, "mono": sample["mono"] + offset, "host": member["host"]}
        for part, member, offset in zip(parts, members, offsets, strict=True)
        for sample in part["usage"]
    ]
    if len(parts) == 1:
        return {**parts[0], "usage": usage}
    rows = [_rows(part, offset) for part, offset in zip(parts, offsets, strict=True)]
    records = [part["record"] for part in parts]
    found |= {
        "members": members,
        "flags": _distinct([flag for record in records for flag in record["flags"]]),
        "drift": _distinct([item for record in records for item in record["drift"]]),
        "disturbance": disturbance.worst(r.get("disturbance") or {} for r in records),
        "workload": {},
    }
    if any(member["status"] != "ok" for member in members):
        found |= {"status": "failed", "reason": cause(members), "metrics": {}}
    else:
        found["metrics"] = metrics(found, members, rows, declared)
    return {
        "record": found,
        "steps": "\n".join(json.dumps(row) for member in rows for row in member),
        "trace": parts[0]["trace"],
        "usage": usage,
        "stdout": _logs(parts, members, "stdout"),
        "stderr": _logs(parts, members, "stderr"),
    }


def metrics(
    record: dict[str, Any],
    members: list[dict[str, Any]],
    rows: list[list[Row]],
    declared: dict[str, Any],
) -> dict[str, dict[str, Any]]:
    """Those of the whole trial; `rows` are each member's steps on the chief's clock."""
    chief = members[0]
    found = dict(chief["metrics"])
    for metric in declared["metrics"]:
        role = metric["role"] or chief["role"]
        those = [member for member in members if member["role"] == role]
        if metric["combine"] in OVER_MEMBERS:
            _put(found, metric["name"], OVER_MEMBERS[metric["combine"]], those)
        elif metric["combine"] == "total":
            _put(found, metric["name"], sum, members)
        elif metric["role"]:
            _put(found, metric["name"], lambda values: values[0], those)
    working = [own for m, own in zip(members, rows, strict=True) if m["role"] == chief["role"]]
    steps = [[row for row in own if row["phase"] == "measured"] for own in working]
    if all(steps):
        _grow(found, declared, throughput(steps))
        units = {metric["name"]: metric["unit"] for metric in declared["metrics"]}
        values = {**_pace(steps), **_limit(record["levels"], members, steps)}
        found |= {k: {"value": v, "unit": units[k]} for k, v in values.items() if k in units}
    return found


def _grow(found: dict[str, dict[str, Any]], declared: dict[str, Any], whole: float) -> None:
    """Raise what grows with the throughput from the chief's own to that of all workers."""
    own = found.get("throughput", {}).get("value")
    for metric in declared["metrics"]:
        name = metric["name"]
        if own and metric["combine"] == "throughput" and name in found:
            found[name] = {**found[name], "value": found[name]["value"] * whole / own}


def _put(
    found: dict[str, Any],
    name: str,
    combine: Callable[[list[float]], float],
    members: list[dict[str, Any]],
) -> None:
    values = [member["metrics"][name] for member in members if name in member["metrics"]]
    if values:
        value = combine([value["value"] for value in values])
        found[name] = {"value": value, "unit": values[0]["unit"]}


def window(rows: list[Row]) -> tuple[float, float]:
    """From the begin of the first row to the end of the last (s)."""
    return min(row["mono"] for row in rows), max(row["mono"] + row["duration_s"] for row in rows)


def throughput(steps: list[list[Row]]) -> float:
    """Items of all workers over the time from the first begin to the last end (1/s)."""
    windows = [window(rows) for rows in steps]
    items = sum(row["items"] for rows in steps for row in rows)
    return float(items / (max(end for _, end in windows) - min(begin for begin, _ in windows)))


def _pace(steps: list[list[Row]]) -> dict[str, float]:
    """How far apart the workers began (s), and how much slower the slowest is."""
    begins = [begin for begin, _ in map(window, steps)]
    medians = [statistics.median(row["duration_s"] for row in rows) for rows in steps]
    return {
        "skew": max(begins) - min(begins),
        "straggler": max(medians) / statistics.median(medians),
    }


def _limit(
    levels: dict[str, Any], members: list[dict[str, Any]], steps: list[list[Row]]
) -> dict[str, float]:
    """What one worker's computing and the bytes on the link allow, and how close it came."""
    chief = members[0]["cluster"]
    busiest = link(levels, members, chief.get("paths") or {}, chief.get("bytes_per_step") or 0)
    if busiest is None:
        return {}
    goodput, moved = busiest
    exchanges = [statistics.median(row.get("exchange_s", 0.0) for row in rows) for rows in steps]
    alone = [
        statistics.median(row["duration_s"] - row.get("exchange_s", 0.0) for row in rows)
        for rows in steps
    ]
    least = max(alone) + moved / goodput
    limit = sum(statistics.mean(row["items"] for row in rows) for rows in steps) / least
    return {
        "goodput": goodput,
        "bytes_moved": moved,
        "exchange": statistics.median(exchanges),
        "limit": limit,
        "of_limit": throughput(steps) / limit,
    }


def link(
    levels: dict[str, Any],
    members: list[dict[str, Any]],
    paths: dict[str, dict[str, float]],
    size: float,
) -> tuple[float, float] | None:
    """Goodput of the busiest link (bytes/s), and the bytes on it for one step of every worker.

    `paths` are bytes/s of each receiver by its sender, all in use at once; `size` is that of the
    gradients in bytes. None where nothing moves.

    Ring: each member sends 2 (n - 1) / n of the gradients to the next (Patarasuk and Yuan 2009).
    Parameter servers: each of s servers gets 1 / s of them from every worker, and as much goes
    back at the same time. Its paths to workers on other hosts share its link; those to workers
    on its own host are not on it, and count only where there are no others.
    """
    hosts = {f"{member['role']} {member['index']}": member["host"] for member in members}
    found = [(to, source, rate) for to, peers in paths.items() for source, rate in peers.items()]
    found = [path for path in found if hosts[path[0]] != hosts[path[1]]] or found
    if not found or not size:
        return None
    if levels["distribution"] == "ring":
        workers = levels["workers"]
        return min(rate for _, _, rate in found), 2 * (workers - 1) / workers * size
    ends: dict[tuple[str, bool], list[float]] = {}
    for to, source, rate in found:
        inward = to.startswith("server")
        ends.setdefault((to if inward else source, inward), []).append(rate)
    each = size / levels["servers"]
    busy = [(sum(rates), len(rates) * each) for rates in ends.values()]
    return max(busy, key=lambda end: end[1] / end[0])


def cause(members: list[dict[str, Any]]) -> dict[str, str]:
    """The reason of the member that failed of itself, and which it was."""
    failed = [member for member in members if member["reason"]]
    first = next((m for m in failed if m["reason"]["cause"] not in SECONDARY), failed[0])
    who = f"{first['role']} {first['index']} on {first['host']}"
    return {
        "cause": first["reason"]["cause"],
        "message": f"{first['reason']['message']}\n({who})",
    }


def judge(measured: Outcome, background: Outcome, items: str | None) -> None:
    """Say in the record what ran beside the trial; void where it did not run all the time.

    `items` is the unit of those in the steps of the background job.
    """
    record, other = measured["record"], background["record"]
    begin, end, rows = 0.0, 0.0, [r for r in _rows(measured, 0.0) if r["phase"] == "measured"]
    if rows:
        begin, end = window(rows)
    beside = [row for row in _rows(background, 0.0) if row["phase"] == "measured"]
    shares = [_inside(row, begin, end) for row in beside]
    covered = sum(share * row["duration_s"] for share, row in zip(shares, beside, strict=True))
    overlap = covered / (end - begin) if rows else 0.0
    done = sum(share * row["items"] for share, row in zip(shares, beside, strict=True))
    rate = done / (end - begin) if rows else 0.0
    record["beside"] = {
        "trial": other["trial"],
        "overlap": overlap,
        "rate": {"value": rate, "unit": f"{items}/s"},
    }
    if record["status"] == "ok" and overlap < OVERLAP:
        record["status"] = "void"
        ran = f"its background job ran during {overlap:.0%} of the measured window"
        why = (other["reason"] or {}).get("message", "").splitlines()[-1:]
        message = ": ".join([f"{ran}, less than {OVERLAP:.0%}", *why])
        record["reason"] = {"cause": "overlap", "message": message}


def duet(first: Outcome, second: Outcome, items: str | None) -> None:
    """Say in both records how fast each was while both were measured, in `items` of their steps.

    The end of one ends the time in which they are compared. Void where there was no such time,
    though both ended well.
    """
    both = (first, second)
    rows = [[r for r in _rows(one, 0.0) if r["phase"] == "measured"] for one in both]
    windows = [window(own) if own else (0.0, 0.0) for own in rows]
    begin, end = max(w[0] for w in windows), min(w[1] for w in windows)
    seconds = max(0.0, end - begin) if all(rows) else 0.0
    well = all(one["record"]["status"] == "ok" for one in both)
    for one, other, own, (since, until) in zip(both, reversed(both), rows, windows, strict=True):
        record = one["record"]
        if record.get("duet"):
            share = seconds / (until - since) if own else 0.0
            told = {"trial": other["record"]["trial"], "seconds": seconds, "share": share}
            record["duet"] |= told
        if well and seconds:
            done = sum(_inside(row, begin, end) * row["items"] for row in own)
            record["metrics"][RATE] = {"value": done / seconds, "unit": f"{items}/s"}
        elif well:
            record["status"] = "void"
            message = "the two trials of its duet were never measured at the same time"
            record["reason"] = {"cause": "overlap", "message": message}


def _inside(row: Row, begin: float, end: float) -> float:
    """The share of a step that lies between two instants."""
    inside = min(row["mono"] + row["duration_s"], end) - max(row["mono"], begin)
    return max(0.0, inside) / row["duration_s"] if row["duration_s"] > 0 else 0.0


def lost(base: dict[str, Any], member: dict[str, Any], why: str) -> Outcome:
    """The outcome of a member whose host no longer answers; `base` is its record so far."""
    document = {
        **base,
        "status": "failed",
        "reason": {"cause": "host_lost", "message": f"{member['host']}: {why}"},
        "member": {key: member[key] for key in ("role", "index", "host")},
    }
    nothing = dict.fromkeys(("steps", "trace", "stdout", "stderr"), "")
    return {"record": document, "usage": [], **nothing}


def _who(part: Outcome) -> tuple[str, int]:
    member = part["record"]["member"]
    return member["role"], member["index"]


def _about(record: dict[str, Any]) -> dict[str, Any]:
    """What a record says of its one member."""
    about = {key: record[key] for key in ("status", "reason", "clock", "metrics", "phases")}
    said = {name: record["workload"].get(name) or {} for name in ("cluster", "environment")}
    return {**about, **said}


def _rows(part: Outcome, offset: float) -> list[Row]:
    rows = [json.loads(line) for line in part["steps"].splitlines() if line]
    return [{**row, "mono": row["mono"] + offset} for row in rows]


def _distinct(items: list[Any]) -> list[Any]:
    return [item for n, item in enumerate(items) if item not in items[:n]]


def _logs(parts: list[Outcome], members: list[dict[str, Any]], name: str) -> str:
    """All logs, one under the other, each with a line that says whose it is."""
    return "".join(
        f"== {member['role']} {member['index']} on {member['host']}\n{part[name]}\n"
        for part, member in zip(parts, members, strict=True)
        if part[name]
    )
