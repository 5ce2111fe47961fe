"""What each network costs beside the hosts' own: on the wire, in training, and how the two agree.

The overlay view of the page: a run has it where its baseline is on one network and other arms are
on others. Changes on the wire and in training are those of the other tables, over all cases. What
is made here is the attribution, `predicted`: how much longer a step of training takes should follow
from how many bytes and messages it sends, and from how much slower the network is for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from . import carryover, ends, inference, stats, text
from .inference import Estimate
from .metrics import DASH
from .pairing import Arm, arms
from .scenarios import Table
from .tables import Tables, records

# Columns of the wire: the workload, its metric, and what it is called here.
WIRE = (
    ("iperf3", "throughput", "Throughput"),
    ("request_response", "latency_p50", "Latency"),
    ("iperf3", "host_cpu_client", "CPU for a GB, client"),
    ("iperf3", "host_cpu_server", "CPU for a GB, server"),
)
# Where the ends of a trial are, and what that is called here.
PATHS = {"spread": "between hosts", "packed": "on one host"}
MOVED = "bytes_moved"  # in a step, of a trial whose workers exchange something
NEEDED = {MOVED, "throughput", "workers", "batch_size", "distribution", "placement", "network"}
Round = tuple[str, str, int]  # arm, block, round


def tables(found: Tables) -> list[Table]:
    """Those that this run has data for."""
    if found.overall.empty or "network" not in found.trials:
        return []
    networks = _networks(found)
    if not networks:
        return []
    made = (costs(found, networks), at_ends(found), explained(found, networks), left(found))
    return [each for each in made if each.rows]


def _networks(found: Tables) -> dict[str, str]:
    """By arm its network, of the arms that are on another network than their baseline, by name."""
    trials = found.trials[found.trials["role"] == "measured"]
    own = set(trials.loc[trials["is_baseline"], "network"])
    first = trials.drop_duplicates("arm").sort_values("short")
    named = first[["arm", "network"]].itertuples(index=False)
    return {arm: network for arm, network in named if len(own) == 1 and network not in own}


def costs(found: Tables, networks: Mapping[str, str]) -> Table:
    """A row an arm and path: what its headers cost, and what was measured."""
    columns = _columns(found)
    paths = {path: _changes(found, path, networks, columns) for path in PATHS}
    paths = {path: by for path, by in paths.items() if by}
    seen = {column for by in paths.values() for _, column in by}
    columns = [one for one in columns if one[0] in seen]
    if not columns:  # networks differ, and nothing was sent over them
        paths = {}
    rows = [
        (
            *_named(found, arm, path if len(paths) > 1 else ""),
            *_packets(found, arm, path),
            *(_change(by.get((arm, column))) for column, _ in columns),
        )
        for path, by in paths.items()
        for arm in networks
    ]
    return Table(
        "What each network costs",
        "Against the hosts' own network, over all cases, with 95 % intervals; ? stands before what "
        "has too few pairs to be judged. MTU: the largest packet that a program can send whole. "
        "Headers: what the network puts before each packet, as a share of the largest packet "
        "between the hosts: so much the protocol costs a link that is full. CPU is that of all "
        "that runs on the host, the kernel's work for packets included.",
        ("Network", "MTU", "Headers", *(title for _, title in columns)),
        rows,
        {1},
    )


def _columns(found: Tables) -> list[tuple[str, str]]:
    """What was measured on the wire and of training, each with its title."""
    column_of, known = found.loaded.metrics.column, set(found.trials["workload"])
    wire = [(column_of(owner, name), title) for owner, name, title in WIRE if owner in known]
    return wire + _training(found)


def _changes(
    found: Tables, path: str, networks: Mapping[str, str], columns: list[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, Any]]:
    """By arm and column its row over all cases of one path."""
    trials, overall = found.trials, found.overall
    placed = trials["placement"] if "placement" in trials else pd.Series("spread", trials.index)
    chosen = trials[placed == path].reset_index(drop=True)
    if len(chosen) < len(trials):
        named = {column for column, _ in columns}
        metrics = [metric for metric in found.loaded.metrics if metric.name in named]
        single = stats.compare(chosen, metrics)
        overall = stats.overall(chosen, metrics, single, model=False)
    rows = records(overall) if len(overall) else []
    return {(row["arm"], row["metric"]): row for row in rows if row["arm"] in networks}


def _named(found: Tables, arm: str, path: str) -> tuple[str]:
    short = str(found.trials.loc[found.trials["arm"] == arm, "short"].iloc[0])
    return (f"{short}, {PATHS[path]}" if path else short,)


def _packets(found: Tables, arm: str, path: str) -> tuple[str, str]:
    """The MTU of an arm, and what its headers cost; on one host nothing is put before a packet."""
    of_arm = found.trials[found.trials["arm"] == arm]
    known = found.loaded.run.networks.get(str(of_arm["network"].iloc[0]))
    if path != "spread" or known is None:
        return DASH, DASH
    baseline = found.trials[found.trials["is_baseline"]]
    return _number(_mtu(of_arm)), protocol_cost(known.headers, _mtu(baseline))


def protocol_cost(headers: float, mtu: float) -> str:
    """Headers (bytes) as a share of the largest packet (bytes): `50 B, 3.3 %`."""
    share = f", {headers / mtu:.1%}".replace("%", " %") if mtu > 0 else ""
    return f"{headers:.0f} B{share}"


def _training(found: Tables) -> list[tuple[str, str]]:
    """The throughput of each workload that exchanges something, by its column."""
    usable = found.usable
    if MOVED not in usable:
        return []
    names = sorted(set(usable.loc[usable[MOVED].notna(), "workload"]))
    column = found.loaded.metrics.column
    return [(column(n, "throughput"), "Training" if len(names) == 1 else n) for n in names]


def _mtu(trials: pd.DataFrame) -> float:
    """The least path MTU (bytes) of these trials between two hosts; NaN where none says."""
    good = trials[trials["status"] == "ok"]
    between = good[good["placement"] == "spread"] if "placement" in good else good
    return float(between["path_mtu"].min())


def _change(row: Mapping[Any, Any] | None) -> str:
    if row is None or not math.isfinite(row["ratio"]):
        return DASH
    doubt = "" if stats.judged(row) else "? "
    return doubt + text.change(row["ratio"], row["ratio_low"], row["ratio_high"])


def at_ends(found: Tables) -> Table:
    """A row a network, case, and what adds up along the way."""
    return Table(
        "At which end a network costs it",
        "What the network costs beyond the hosts' own, parted by the arms with one end on it: at "
        "the client's end, both ends less the server's alone; at the server's end, both less the "
        "client's alone; between them, what is left of both. With 95 % intervals over rounds.",
        ("Network", "Case", "Of", "Hosts' own", "Client's end", "Server's end", "Between"),
        ends.rows(found),
        {3, 4, 5, 6},
    )


def left(found: Tables) -> Table:
    """A row a setting that others followed; the last row says what chance alone would give."""
    columns = _columns(found)
    by = carryover.visits(found.loaded)
    told = [carryover.carried(found.trials, by, name) for name, _ in columns]
    known = [(title, one) for (_, title), one in zip(columns, told, strict=True) if one]
    settings = sorted({setting for _, one in known for setting in one.after})
    rows = [(setting, *(_left(one.after.get(setting)) for _, one in known)) for setting in settings]
    chances = ("p, of none at all", *(f"{one.p:.2g}" for _, one in known))
    return Table(
        "What a network leaves to the next",
        "How much more or less is measured in a visit directly after this network, whichever "
        "network is visited, against the mean after all of them, with 95 % intervals. Every switch "
        "was proven clean; this asks the figures. p: how often so much would be seen by chance.",
        ("After", *(title for title, _ in known)),
        [*rows, chances] if rows else [],
        set(),
    )


def _left(effect: Estimate | None) -> str:
    if effect is None:
        return DASH
    return text.change(*map(inference.ratio, (effect.mean, effect.low, effect.high)))


def predicted(moved: float, messages: float, byte: float, round_trip: float) -> tuple[float, float]:
    """How much longer a step takes on a slower wire (s): for its bandwidth, and for its latency.

        bandwidth = bytes moved x what a byte takes longer
        latency   = messages x what a round trip takes longer / 2

    `moved` bytes cross the busiest link in a step, one way; `messages` follow each other, each
    after the one before: 2 (n - 1) in a ring of n, and 2 with parameter servers. `byte` (s) is from
    the throughput that iperf3 measured, `round_trip` (s) the median latency of requests and
    responses. Both are differences to the hosts' own network in the same round.

    What the model does not have is in the rest: an exchange that overlaps the computing, CPU time
    that the network takes from the computing or the sums, more messages than need be, and bursts
    that a steady stream does not have.
    """
    return moved * byte, messages * round_trip / 2


def explained(found: Tables, networks: Mapping[str, str]) -> Table:
    """A row an arm and case of training: what its steps take longer, and what explains it."""
    return Table(
        "How much of the training the wire explains",
        "How much longer a step takes than on the hosts' own network, beside what follows from the "
        "bandwidth and the latency that were measured in the same rounds: its bytes at the "
        "throughput of iperf3, its messages at half a round trip each. The rest is what the two do "
        "not explain. With 95 % intervals over rounds.",
        ("Network", "Case", "Step", "Longer by", "Bandwidth", "Latency", "Rest", "Explained"),
        [
            (
                *(
                    cost.short,
                    cost.case,
                    text.quantity(cost.step, "s"),
                    text.estimate(cost.longer, "s"),
                ),
                *(text.quantity(part.mean, "s") for part in (cost.bandwidth, cost.latency)),
                *(text.estimate(cost.rest, "s"), cost.share),
            )
            for cost in attribution(found, networks)
        ],
        {2, 4, 5, 7},
    )


@dataclass(frozen=True)
class Cost:
    """Of one arm in one case: a step on the baseline, and what it takes longer (s)."""

    short: str
    case: str
    step: float
    longer: Estimate
    bandwidth: Estimate
    latency: Estimate
    rest: Estimate

    @property
    def share(self) -> str:
        """Of what it takes longer, where that is more than chance."""
        if not self.longer.low > 0:
            return DASH
        share = (self.bandwidth.mean + self.latency.mean) / self.longer.mean
        return f"{share:.0%}".replace("%", " %")


def attribution(found: Tables, networks: Mapping[str, str]) -> list[Cost]:
    """What training on each of these arms takes longer, and why, over the rounds that tell."""
    trials = found.trials
    if not set(trials) >= NEEDED:
        return []
    every = [arm for arm in arms(trials) if arm.arm in networks]
    # An exchange goes both ways at once: the wire as it is then, where that was measured.
    both = "direction" in trials and bool((trials["direction"] == "both").any())
    of_byte = _byte_both_ways if both else _byte_one_way
    bytes_of = _longer(found, every, "iperf3", "throughput", of_byte)
    trips_of = _longer(found, every, "request_response", "latency_p50", _round_trip)
    costs = (_cost(found, arm, bytes_of, trips_of) for arm in every)
    return [cost for cost in costs if cost is not None]


def _cost(
    found: Tables, arm: Arm, bytes_of: dict[Round, float], trips_of: dict[Round, float]
) -> Cost | None:
    rows = []
    for ours, theirs in arm.pairs:
        one, other = (found.trials.iloc[place] for place in (ours, theirs))
        at = _round(one)
        steps = [_step(found, trial) for trial in (one, other)]
        if one["placement"] == "spread" and at in bytes_of and at in trips_of and all(steps):
            wire = predicted(one[MOVED], _messages(one), bytes_of[at], trips_of[at])
            longer = steps[0] - steps[1]
            rows.append((steps[1], longer, *wire, longer - sum(wire)))
    if not rows:
        return None
    step, *parts = np.array(rows).T
    return Cost(arm.short, arm.case, float(step.mean()), *map(inference.of_pairs, parts))


def _step(found: Tables, trial: pd.Series) -> float:
    """What a step of all workers takes (s); 0 where the trial trains nothing together."""
    column = found.loaded.metrics.column(str(trial["workload"]), "throughput")
    if not (trial[MOVED] > 0 and trial[column] > 0):
        return 0.0
    return float(trial["workers"] * trial["batch_size"] / trial[column])


def _messages(trial: pd.Series) -> float:
    """How many messages of a step follow each other."""
    return 2.0 * (trial["workers"] - 1) if trial["distribution"] == "ring" else 2.0


def _longer(
    found: Tables,
    every: list[Arm],
    workload: str,
    metric: str,
    seconds: Callable[[pd.Series, float], float],
) -> dict[Round, float]:
    """By round what something takes longer on the wire than on the baseline (s), a mean over the
    cases; `seconds` says what it takes in one trial, or NaN where that trial does not tell."""
    column = found.loaded.metrics.column(workload, metric)
    if column not in found.trials:
        return {}
    seen: dict[Round, list[float]] = {}
    for arm in every:
        for places in arm.pairs:
            pair = [found.trials.iloc[place] for place in places]
            if all(one["workload"] == workload and one["placement"] == "spread" for one in pair):
                ours, theirs = (seconds(one, float(one[column])) for one in pair)
                if math.isfinite(ours - theirs):
                    seen.setdefault(_round(pair[0]), []).append(ours - theirs)
    return {at: float(np.mean(values)) for at, values in seen.items()}


def _byte_one_way(trial: pd.Series, rate: float) -> float:
    """From bit/s."""
    return 8 / rate if trial["protocol"] == "tcp" and rate > 0 else math.nan


def _byte_both_ways(trial: pd.Series, rate: float) -> float:
    """In each direction; the rate is the sum of both."""
    return 2 * _byte_one_way(trial, rate) if trial["direction"] == "both" else math.nan


def _round_trip(trial: pd.Series, latency: float) -> float:
    return latency if trial["connection"] == "kept" else math.nan


def _round(trial: pd.Series) -> Round:
    return str(trial["arm"]), str(trial["block"]), int(trial["round"])


def _number(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else DASH
