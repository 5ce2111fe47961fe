"""Do the verdicts hold on a machine whose speed moves? Runs are simulated, from plan to tables.

    python -m benchmarks.inference [--runs 64] [--whole 32]

The controller plans an experiment of eight cases with two arms and an A/A control. A simulated
machine then gives each trial its rate, in the order of the plan, and the analysis judges the
records. In every world all arms are equal, so that each verdict of change is false; an effect is
then planted into the same runs. Beside the pairs stand, as controls, Welch's t over the same trials
unpaired, and the same with the arms measured one after the other.

A second table goes the whole way: hosts that are simulated answer for each slot (`simulated.py`),
the controller judges what disturbed them, stores and runs again, and the analysis reads the folder.
There duets stand beside pairs at equal machine time: both have three slots for a case in a round.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import inference, load, matching, page, stats, tables
from analysis.metrics import Metric
from benchmarks import simulated
from benchmarks.simulated import World
from controller import metrics as declarations
from controller import plan
from controller.experiment import Experiment
from schema import documents as schema

Array = NDArray[np.float64]
RATE = Metric("rate", "Rate", "hashes/s", "higher", headline=True)
CASES = 8
REPEATS = 6
IMAGE = {"family": "tools", "kind": "rootfs", "digest": "0" * 64}
CHANGED = ("degraded", "improved")


def rates(world: World, slots: list[plan.Slot], rng: np.random.Generator) -> Array:
    """The rate of each slot's trial, without an effect of its arm."""
    count, log = len(slots), world.speeds(slots, rng)
    disturbed = rng.random(count) < world.tenants
    log -= np.where(disturbed, np.log(rng.uniform(1.3, 2.0, count)), 0)
    own = np.array([simulated.work(slot.trials[0].levels) % CASES for slot in slots])
    log += rng.normal(0, world.noise * np.linspace(1 / 3, 5 / 3, CASES)[own])
    return np.asarray(np.exp(log) * simulated.RATE)


WORLDS = (
    World("independent noise"),
    World("drift 20 %, 3 trials", drift=0.2, fading=3),
    World("drift 20 %, 10 trials", drift=0.2, fading=10),
    World("drift 20 %, 30 trials", drift=0.2, fading=30),
    World("step by 1.5", step=1.5),
    World("co-tenants, 1 in 10", tenants=0.1),
    World("unequal hosts", hosts=2),
    World("all of it", drift=0.2, fading=10, step=1.5, tenants=0.1, hosts=2),
)
# What only the whole way has: what hosts see is judged and run again, and trials fail.
PLAYED = (
    World("independent noise"),
    World("drift 20 %, 10 trials", drift=0.2, fading=10),
    World("1 in 10 trials fails", fails=0.1),
    World("co-tenants, 1 in 10, seen", tenants=0.1, seen=True),
    World("co-tenants, 1 in 10, not seen", tenants=0.1),
)


def asked(seed: int, design: str = "pairs") -> Experiment:
    """The experiment of every simulated run."""
    return Experiment.model_validate({
        **{"name": "simulated", "title": "Simulated", "workload": "spin", "seed": seed},
        **{"factors": {"runtime": ["native", "docker"], "work": list(range(CASES, 2 * CASES))}},
        **{"baseline": {"runtime": "native"}, "repeats": REPEATS, "time_budget": "1000d"},
        "design": design,
    })  # fmt: skip


def planned(world: World, seed: int, design: str = "pairs") -> plan.Plan:
    """What the controller plans for it."""
    runtimes = ("native", "docker")
    hosts = [
        plan.Host(f"node{n}", "bare_metal", runtimes, 2, siblings=((0,), (1,)))
        for n in range(world.hosts)
    ]
    return plan.make(asked(seed, design), hosts)


def document(made: plan.Plan, name: str) -> dict[str, Any]:
    """run.json less what the results folder adds."""
    hosts = sorted({host for slot in made.slots for host in slot.hosts})
    return {
        **{"run": name, "name": "simulated", "experiment": {}, "experiment_digest": "e"},
        **{"plan_digest": made.identity, "seed": 1, "testbed": "simulated"},
        **{"hosts": {host: {"substrate": "bare_metal"} for host in hosts}, "images": [IMAGE]},
        **{"dataset": None, "strata": {"version": "0", "commit": "0"}, "demonstration": False},
        **{"baseline": made.baseline, "factors": made.factors, "left_out": [], "confounds": []},
        "workloads": declarations.declared(["spin"]),
    }


def records(made: plan.Plan, speeds: Array, run: str) -> Iterator[dict[str, Any]]:
    """The record of each trial."""
    for number, (slot, rate) in enumerate(zip(made.slots, speeds, strict=True)):
        trial = slot.trials[0]
        platform = "/".join(str(trial.levels[n]) for n in ("substrate", "runtime", "network"))
        yield {
            **{"schema": schema.SCHEMA, "run": run, "slot": slot.slot, "trial": trial.trial},
            **{"cell": trial.cell, "repetition": trial.repetition, "role": "measured"},
            **{"block": slot.block, "round": slot.round, "position": slot.position},
            **{"levels": trial.levels, "platform": platform, "hosts": slot.hosts},
            **{"status": "ok", "reason": None, "image": IMAGE, "dataset": None, "drift": []},
            **{"started": "2025-01-01T00:00:00Z", "flags": [], "phases": {}, "workload": {}},
            "clock": {"launched": 20.0 * number, "finished": 20.0 * number + 15},
            "metrics": {"rate": {"value": float(rate), "unit": "hashes/s"}},
        }


def in_a_frame(made: plan.Plan, speeds: Array) -> load.Loaded:
    """The same without a file."""
    run = schema.validate_run({"schema": schema.SCHEMA, "created": "", **document(made, "r")})
    whole = schema.validate_plan({"schema": schema.SCHEMA, **made.document()})
    found = [schema.validate_record(record) for record in records(made, speeds, "r")]
    return load.of_records(Path("r"), run, whole, found)


@dataclass
class Tally:
    """What happened in all runs of a world, by name; a list holds a number for each comparison."""

    seen: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, values: Any) -> None:
        self.seen.setdefault(name, []).extend(np.asarray(values, dtype=np.float64).tolist())

    def mean(self, name: str) -> float:
        return float(np.mean(self.seen[name]))

    def median(self, name: str) -> float:
        return float(np.median(self.seen[name]))


def played(
    world: World, seed: int, rng: np.random.Generator, design: str = "pairs"
) -> tuple[load.Loaded, tables.Tables]:
    """A run the whole way: planned, put in order, answered by simulated hosts, judged, stored, run
    again where the rule says so, read, and analysed as for the page."""
    with tempfile.TemporaryDirectory() as where:
        made = planned(world, seed, design)
        run = simulated.opened(Path(where) / "simulated-1", asked(seed, design), made)
        simulated.play(run, simulated.Hosts(world, made, rng))
        loaded = load.load(run.folder)
        return loaded, tables.build(loaded, judge_steps=False)


def whole_way(world: World, runs: int, seed: int, design: str = "pairs") -> Tally:
    """Runs the whole way, counted as in `run`; the last one's page is rendered, too."""
    rng, tally = np.random.default_rng(seed), Tally()
    for number in range(runs):
        loaded, found = played(world, seed * 10_000 + number, rng, design)
        (lead,) = loaded.metrics.leads
        single, over = (f[f["metric"] == lead] for f in (found.comparisons, found.overall))
        _count(tally, "case", single[single["verdict"] != "too few trials"])
        _count(tally, "all", over)
        _plant(tally, found.trials, single, over, loaded.metrics.get(lead))
        tally.add("void", [(loaded.attempts["status"] == "void").mean()])
        tally.add("dropped", [1 - over["n"].sum() / over["planned"].sum()])
    page.render(found)
    return tally


def run(world: World, runs: int, seed: int) -> Tally:
    """Simulate, analyse, and count; the same seed gives the same."""
    rng, tally = np.random.default_rng(seed), Tally()
    for number in range(runs):
        made = planned(world, seed * 10_000 + number)
        speeds = rates(world, made.slots, rng)
        frame = matching.assign(in_a_frame(made, speeds))
        single, whole = judged(frame)
        _count(tally, "case", single)
        _count(tally, "all", whole)
        _plant(tally, frame, single, whole)
        _controls(tally, frame, "unpaired")
        order = sorted(range(len(frame)), key=lambda n: (frame["arm"][n], frame["case"][n]))
        one_by_one = frame.iloc[order].assign(
            rate=rates(world, [made.slots[n] for n in order], rng)
        )
        _controls(tally, one_by_one, "sequential")
    return tally


def judged(frame: pd.DataFrame, metric: Metric = RATE) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the analysis says of each case, and of all of them."""
    single = stats.compare(frame, [metric])
    return single, stats.overall(frame, [metric], single, model=False)


def _count(tally: Tally, what: str, found: pd.DataFrame) -> None:
    tally.add(f"{what} false", found["verdict"].isin(CHANGED))
    tally.add(f"{what} covered", (found["ratio_low"] <= 1) & (found["ratio_high"] >= 1))
    tally.add(f"{what} width", found["ratio_high"] / found["ratio_low"] - 1)
    tally.add(f"{what} seen", found["detectable"])


def _plant(
    tally: Tally,
    frame: pd.DataFrame,
    single: pd.DataFrame,
    whole: pd.DataFrame,
    metric: Metric = RATE,
) -> None:
    """Slow one arm of the very same trials: by what was printed as detectable, by fixed shares."""
    name = metric.name
    docker = frame["runtime"] == "docker"
    by_case = single[~single["is_control"]].set_index("cell")["detectable"]
    (over_all,) = whole.loc[~whole["is_control"], "detectable"]
    slowed = frame[name] / (1 + frame["cell"].map(by_case).fillna(0))
    planted, _ = judged(frame.assign(**{name: slowed}), metric)
    tally.add("case found", _found(planted))
    slowed = frame[name].where(~docker, frame[name] / (1 + over_all))
    tally.add("all found", _found(judged(frame.assign(**{name: slowed}), metric)[1]))
    for share in (5, 10):
        slowed = frame[name].where(~docker, frame[name] * (1 - share / 100))
        planted = frame.assign(**{name: slowed})
        for what, answer in zip(("case", "all"), judged(planted, metric), strict=True):
            tally.add(f"{what} found {share}", _found(answer))
        if metric is RATE:
            tally.add(f"unpaired found {share}", [one.high < 0 for one in _unpaired(planted)])


def _found(answer: pd.DataFrame) -> pd.Series:
    return answer.loc[~answer["is_control"], "verdict"] == "degraded"


def _controls(tally: Tally, frame: pd.DataFrame, what: str) -> None:
    both = list(_unpaired(frame))
    tally.add(f"{what} false", [not found.low <= 0 <= found.high for found in both])
    tally.add(f"{what} width", [math.exp(2 * found.half_width) - 1 for found in both])


def _unpaired(frame: pd.DataFrame) -> Iterator[inference.Estimate]:
    """Welch's t of each cell on Docker against its baseline, as if trials had no rounds."""
    logs = np.log(frame["rate"].to_numpy())
    for _, group in frame[frame["runtime"] == "docker"].groupby("cell"):
        same = frame["is_baseline"] & (frame["match"] == group["match"].iloc[0])
        ours = frame.index.get_indexer(group.index)
        sides = [inference.of_pairs(side) for side in (logs[ours], logs[same.to_numpy()])]
        yield inference.of_contrast(*sides)


def looked_at(runs: int, most: int, seed: int, least: int = 6) -> tuple[float, float]:
    """The share of A/A runs in which a look after some pair finds a change, from `least` to `most`
    pairs: by intervals that hold at any time, and by plain ones."""
    logs = np.random.default_rng(seed).normal(0, 0.05, (runs, most))
    count = np.arange(1, most + 1)
    mean = np.cumsum(logs, axis=1) / count
    squares = np.cumsum(logs**2, axis=1) - count * mean**2
    found = np.zeros((2, runs), dtype=bool)
    for n in range(least, most + 1):
        error = np.sqrt(squares[:, n - 1] / (n - 1) / n)
        for kind, name in enumerate((inference.Anytime, inference.Estimate)):
            # An interval is as wide as its standard error is large.
            found[kind] |= np.abs(mean[:, n - 1]) > error * name(0.0, 1.0, n - 1).half_width
    anytime, plain = found.mean(axis=1)
    return float(anytime), float(plain)


HEAD = (
    *("world", "n", "false", "cover", "width", "sees", "power", "-5 %", "-10 %"),
    *("all: n", "false", "cover", "width", "sees", "power", "-5 %", "-10 %"),
    *("unp.: false", "width", "-5 %", "-10 %", "seq.: false"),
)


def line(world: World, tally: Tally) -> list[str]:
    """What stands in the table for a world; all but the counts in percent."""
    rest = [tally.mean("unpaired false"), tally.median("unpaired width")]
    rest += [tally.mean(f"unpaired found {share}") for share in (5, 10)]
    rest.append(tally.mean("sequential false"))
    return [world.name, *_judgements(tally), *(f"{100 * share:.1f}" for share in rest)]


def _judgements(tally: Tally) -> list[str]:
    """Of single cases, and over all of them."""
    cells = []
    for what in ("case", "all"):
        cells.append(str(len(tally.seen[f"{what} false"])))
        shares = [tally.mean(f"{what} {name}") for name in ("false", "covered")]
        shares += [tally.median(f"{what} {name}") for name in ("width", "seen")]
        shares += [tally.mean(f"{what} found{name}") for name in ("", " 5", " 10")]
        cells += [f"{100 * share:.1f}" for share in shares]
    return cells


WHOLE_HEAD = (
    *("whole way", "design", "void", "dropped", "n", "false", "cover", "width", "sees", "power"),
    *("-5 %", "-10 %", "all: n", "false", "cover", "width", "sees", "power", "-5 %", "-10 %"),
)


def whole_line(world: World, design: str, tally: Tally) -> list[str]:
    """What stands in the table of the whole way; all but the counts in percent."""
    shares = [f"{100 * tally.mean(name):.1f}" for name in ("void", "dropped")]
    return [world.name, design, *shares, *_judgements(tally)]


def simulate(world: World, runs: int, seed: int) -> list[str]:
    """A line of the first table."""
    return line(world, run(world, runs, seed))


def simulate_whole(world: World, runs: int, seed: int, design: str) -> list[str]:
    """A line of the second table."""
    return whole_line(world, design, whole_way(world, runs, seed, design))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=64, help="of each world")
    parser.add_argument("--whole", type=int, default=32, help="of each world, the whole way")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    anytime, plain = looked_at(10_000, 60, given.seed)
    print(f"Looked at after each of 60 pairs, 10,000 A/A runs: {anytime:.1%} false by intervals "
          f"that hold at any time, {plain:.1%} by plain ones.\n")  # fmt: skip
    with ProcessPoolExecutor() as pool:
        print(" | ".join(HEAD), flush=True)
        worlds = WORLDS if given.runs else ()
        for cells in pool.map(simulate, worlds, repeat(given.runs), repeat(given.seed)):
            print(" | ".join(cells), flush=True)
        print("\n" + " | ".join(WHOLE_HEAD), flush=True)
        both = [(world, design) for world in PLAYED for design in ("pairs", "duet")]
        worlds, designs = zip(*both, strict=True) if given.whole else ((), ())
        way = pool.map(simulate_whole, worlds, repeat(given.whole), repeat(given.seed), designs)
        for cells in way:
            print(" | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
