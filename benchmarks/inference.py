"""Do the verdicts hold on a machine whose speed moves? Runs are simulated, from plan to tables.

    python benchmarks/inference.py [--runs 64] [--frames]

The controller plans an experiment of eight cases with two arms and an A/A control. A simulated
machine then gives each trial its rate, in the order of the plan, and the analysis judges what is
in the run's folder. With --frames nothing is written: the records go to the analysis as a frame,
several times as fast. In every world all arms are equal, so that each verdict of change is false;
an effect is then planted into the same runs. Beside the pairs stand, as controls, Welch's t over
the same trials unpaired, and the same with the arms measured one after the other.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import inference, load, matching, stats
from analysis.metrics import Metric
from controller import metrics as declarations
from controller import plan, results
from controller.experiment import Experiment
from schema import documents as schema

Array = NDArray[np.float64]
RATE = Metric("rate", "Rate", "hashes/s", "higher", headline=True)
CASES = 8
REPEATS = 6
IMAGE = {"family": "tools", "kind": "rootfs", "digest": "0" * 64}
CHANGED = ("degraded", "improved")


@dataclass(frozen=True)
class World:
    """A simulated testbed. Sizes are standard deviations, or factors, of the speed."""

    name: str
    drift: float = 0.0
    fading: float = 10.0  # trials after which 1/e of a drift is left
    step: float = 1.0  # by which the speed changes once, anywhere in the run
    tenants: float = 0.0  # the share of trials that somebody else slows by 1.3 to 2
    hosts: int = 1  # of speeds 20 % apart; rounds alternate between them
    noise: float = 0.02  # of a trial, on average over the cases

    def rates(self, slots: list[plan.Slot], rng: np.random.Generator) -> Array:
        """The rate of each slot's trial, without an effect of its arm."""
        count = len(slots)
        log = self._drift(count, rng)
        log[rng.integers(count) :] -= math.log(self.step)
        disturbed = rng.random(count) < self.tenants
        log -= np.where(disturbed, np.log(rng.uniform(1.3, 2.0, count)), 0)
        log -= [int(slot.hosts[0].removeprefix("node")) * math.log(1.2) for slot in slots]
        # Each case has noise of its own size, from a third to nearly twice the average.
        own = np.array([int(str(slot.trials[0].levels["work"])) % CASES for slot in slots])
        log += rng.normal(0, self.noise * np.linspace(1 / 3, 5 / 3, CASES)[own])
        return np.asarray(np.exp(log) * 1e6)

    def _drift(self, count: int, rng: np.random.Generator) -> Array:
        fades = math.exp(-1 / self.fading)
        log = np.empty(count)
        log[0] = rng.normal(0, self.drift)
        for n in range(1, count):
            log[n] = fades * log[n - 1] + math.sqrt(1 - fades**2) * rng.normal(0, self.drift)
        return log


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


def planned(world: World, seed: int) -> plan.Plan:
    """What the controller plans for it."""
    asked = Experiment.model_validate({
        **{"name": "simulated", "title": "Simulated", "workload": "spin", "seed": seed},
        **{"factors": {"runtime": ["native", "docker"], "work": list(range(CASES, 2 * CASES))}},
        **{"baseline": {"runtime": "native"}, "repeats": REPEATS, "time_budget": "1000d"},
    })  # fmt: skip
    runtimes = ("native", "docker")
    hosts = [plan.Host(f"node{n}", "bare_metal", runtimes) for n in range(world.hosts)]
    return plan.make(asked, hosts)


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


def records(made: plan.Plan, rates: Array, run: str) -> Iterator[dict[str, Any]]:
    """The record of each trial."""
    for number, (slot, rate) in enumerate(zip(made.slots, rates, strict=True)):
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


def in_a_folder(made: plan.Plan, rates: Array) -> load.Loaded:
    """A run folder as a run leaves it, and what the analysis reads there."""
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where) / "simulated-1"
        hosts: dict[str, dict[str, Any]] = {host: {} for host in document(made, "r")["hosts"]}
        plan_document = {key: made.document()[key] for key in ("slots", "estimate")}
        run = results.Run.create(folder, document(made, folder.name), plan_document, hosts)
        for record in records(made, rates, folder.name):
            schema.validate_record(record)
            place = run.folder / "trials" / record["trial"]
            place.mkdir()
            (place / "record.json").write_text(load.canonical(record))
        return load.load(folder)


def in_a_frame(made: plan.Plan, rates: Array) -> load.Loaded:
    """The same without a file."""
    run = schema.validate_run({"schema": schema.SCHEMA, "created": "", **document(made, "r")})
    whole = schema.validate_plan({"schema": schema.SCHEMA, **made.document()})
    found = [schema.validate_record(record) for record in records(made, rates, "r")]
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


def run(world: World, runs: int, seed: int, way: Callable[..., load.Loaded] = in_a_frame) -> Tally:
    """Simulate, analyse, and count; the same seed gives the same."""
    rng, tally = np.random.default_rng(seed), Tally()
    for number in range(runs):
        made = planned(world, seed * 10_000 + number)
        rates = world.rates(made.slots, rng)
        frame = matching.assign(way(made, rates))
        single, whole = judged(frame)
        _count(tally, "case", single)
        _count(tally, "all", whole)
        _plant(tally, frame, single, whole)
        _controls(tally, frame, "unpaired")
        order = sorted(range(len(frame)), key=lambda n: (frame["arm"][n], frame["case"][n]))
        one_by_one = frame.iloc[order].assign(rate=world.rates([made.slots[n] for n in order], rng))
        _controls(tally, one_by_one, "sequential")
    return tally


def judged(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the analysis says of each case, and of all of them."""
    single = stats.compare(frame, [RATE])
    return single, stats.overall(frame, [RATE], single, model=False)


def _count(tally: Tally, what: str, found: pd.DataFrame) -> None:
    tally.add(f"{what} false", found["verdict"].isin(CHANGED))
    tally.add(f"{what} covered", (found["ratio_low"] <= 1) & (found["ratio_high"] >= 1))
    tally.add(f"{what} width", found["ratio_high"] / found["ratio_low"] - 1)
    tally.add(f"{what} seen", found["detectable"])


def _plant(tally: Tally, frame: pd.DataFrame, single: pd.DataFrame, whole: pd.DataFrame) -> None:
    """Slow one arm of the very same trials: by what was printed as detectable, by fixed shares."""
    docker = frame["runtime"] == "docker"
    by_case = single[~single["is_control"]].set_index("cell")["detectable"]
    (over_all,) = whole.loc[~whole["is_control"], "detectable"]
    slowed = frame["rate"] / (1 + frame["cell"].map(by_case).fillna(0))
    tally.add("case found", _found(stats.compare(frame.assign(rate=slowed), [RATE])))
    slowed = frame["rate"].where(~docker, frame["rate"] / (1 + over_all))
    tally.add("all found", _found(judged(frame.assign(rate=slowed))[1]))
    for share in (5, 10):
        slowed = frame["rate"].where(~docker, frame["rate"] * (1 - share / 100))
        planted = frame.assign(rate=slowed)
        for what, answer in zip(("case", "all"), judged(planted), strict=True):
            tally.add(f"{what} found {share}", _found(answer))
        tally.add(f"unpaired found {share}", [found.high < 0 for found in _unpaired(planted)])


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
    cells = [world.name]
    for what in ("case", "all"):
        cells.append(str(len(tally.seen[f"{what} false"])))
        shares = [tally.mean(f"{what} {name}") for name in ("false", "covered")]
        shares += [tally.median(f"{what} {name}") for name in ("width", "seen")]
        shares += [tally.mean(f"{what} found{name}") for name in ("", " 5", " 10")]
        cells += [f"{100 * share:.1f}" for share in shares]
    rest = [tally.mean("unpaired false"), tally.median("unpaired width")]
    rest += [tally.mean(f"unpaired found {share}") for share in (5, 10)]
    rest.append(tally.mean("sequential false"))
    return [*cells, *(f"{100 * share:.1f}" for share in rest)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=64, help="of each world")
    parser.add_argument("--frames", action="store_true", help="write no files")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    way = in_a_frame if asked.frames else in_a_folder
    anytime, plain = looked_at(10_000, 60, asked.seed)
    print(f"Looked at after each of 60 pairs, 10,000 A/A runs: {anytime:.1%} false by intervals "
          f"that hold at any time, {plain:.1%} by plain ones.\n")  # fmt: skip
    print(" | ".join(HEAD), flush=True)
    for world in WORLDS:
        print(" | ".join(line(world, run(world, asked.runs, asked.seed, way))), flush=True)


if __name__ == "__main__":
    main()
