"""A simulated testbed: it runs the slots of a plan as hosts would, and keeps what comes of them.

The controller plans, walks through blocks and pairs, judges and stores, as in a run; only what a
host would answer is made up: the steps and the rate of each trial, and what else the host did.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from strata.trial import record

from controller import disturbed, opening, rebuild, stopping, visits
from controller import plan as planning
from controller.experiment import Experiment
from controller.results import Run

Array = NDArray[np.float64]
IMAGE = {"family": "python", "kind": "rootfs", "digest": "0" * 64}
RATE = 1e6  # hashes/s of an undisturbed host
STEPS, STEP_S = 20, 0.5
SLOT_S = 20.0
REBUILD_S = 90.0


@dataclass(frozen=True)
class World:
    """A simulated testbed. Sizes are standard deviations, or factors, of the speed."""

    name: str
    drift: float = 0.0
    fading: float = 10.0  # slots after which 1/e of a drift is left
    step: float = 1.0  # by which the speed changes once, anywhere in the run
    tenants: float = 0.0  # the share of slots that somebody else slows by 1.3 to 2
    seen: bool = False  # whether hosts measure that somebody else, so that the rule can void
    fails: float = 0.0  # the share of trials that fail
    hosts: int = 1  # of speeds 20 % apart; rounds alternate between them
    noise: float = 0.02  # of a trial, on average over the cases
    sides: float = 0.0  # by which the second half of a host is slower, in a duet
    builds: float = 0.0  # of each rebuild of the testbed, in all of its trials alike
    favours: float = 0.0  # of each rebuild, in what runs under Docker beside that
    takes: float = 0.0  # by which what runs under Docker slows what is beside it, in a duet

    def speeds(self, slots: list[planning.Slot], rng: np.random.Generator) -> Array:
        """The logarithm of the speed of the hosts in each slot."""
        count, fades = len(slots), math.exp(-1 / self.fading)
        log = rng.normal(0, self.drift, count)
        for n in range(1, count):
            log[n] = fades * log[n - 1] + math.sqrt(1 - fades**2) * log[n]
        log[rng.integers(count) :] -= math.log(self.step)
        if self.builds:
            builds = rng.normal(0, self.builds, 1 + slots[-1].rebuild)
            log += builds[[slot.rebuild for slot in slots]]
        log -= [int(slot.hosts[0].removeprefix("node")) * math.log(1.2) for slot in slots]
        return np.asarray(log)


@dataclass
class Hosts:
    """Hosts that answer for slots. `effects` are factors of the rate, by runtime."""

    world: World
    made: planning.Plan
    rng: np.random.Generator
    effects: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        speeds = self.world.speeds(self.made.slots, self.rng)
        self._speeds = dict(zip((slot.slot for slot in self.made.slots), speeds, strict=True))
        works = {work(trial.levels) for slot in self.made.slots for trial in slot.trials}
        # Each case has noise of its own size, from a third to nearly twice the average.
        sizes = self.world.noise * np.linspace(1 / 3, 5 / 3, len(works))
        self._noise = dict(zip(sorted(works), sizes, strict=True))
        count = 1 + self.made.slots[-1].rebuild
        self._favours = np.zeros(count)
        if self.world.favours:
            self._favours = self.rng.normal(0, self.world.favours, count)
        self._now = 0.0

    def answer(self, slot: dict[str, Any], run: str) -> list[dict[str, Any]]:
        """What the hosts of a slot tell of its trials, an outcome for each."""
        tenant = self.rng.random() < self.world.tenants
        slowed = math.log(self.rng.uniform(1.3, 2.0)) if tenant else 0.0
        self._now += SLOT_S
        found = []
        for trial in slot["trials"]:
            log = self._speeds[slot["slot"]] - slowed + self._own(trial, slot)
            found.append(self._outcome(slot, trial, run, RATE * math.exp(log)))
            share = 0.3 if tenant and self.world.seen else 0.0
            found[-1]["record"]["disturbance"] = {"others": share}
        return found

    def _own(self, trial: dict[str, Any], slot: dict[str, Any]) -> float:
        """What is the trial's own: its effect, its noise, its half of the host."""
        levels, side = trial["levels"], trial["side"]
        log = math.log(self.effects.get(levels["runtime"], 1.0))
        log += float(self._favours[slot["rebuild"]]) * bool(levels["runtime"] == "docker")
        log += float(self.rng.normal(0, self._noise[work(levels)]))
        if side:
            other = next(one for one in slot["trials"] if one is not trial)
            log += math.log1p(-self.world.sides) * (side - 1)
            log += math.log1p(-self.world.takes) * (other["levels"]["runtime"] == "docker")
        return log

    def _outcome(
        self, slot: dict[str, Any], trial: dict[str, Any], run: str, rate: float
    ) -> dict[str, Any]:
        document = record.base({**trial, "run": run, "hosts": slot["hosts"], **_named(slot)},
                               IMAGE, {})  # fmt: skip
        late = float(self.rng.uniform(0, 1))
        document |= {
            **{"started": "2025-01-01T00:00:00Z", "member": trial["members"][0]},
            "clock": {"launched": self._now, "finished": self._now + SLOT_S - 1},
        }
        document["member"] = {key: document["member"][key] for key in ("role", "index", "host")}
        if trial["side"]:
            document["duet"] = {"side": trial["side"], "cpus": str(trial["side"] - 1)}
        steps = ""
        if self.rng.random() < self.world.fails:
            document["reason"] = {"cause": "exit", "message": "it ended with status 1"}
        else:
            document["status"] = "ok"
            document["metrics"] = {"rate": {"value": rate, "unit": "hashes/s"}}
            if trial["side"]:
                steps = _steps(self._now + late, rate)
        return {
            "record": document,
            "steps": steps,
            "trace": "",
            "usage": [],
            "stdout": "",
            "stderr": "",
        }


def work(levels: dict[str, Any]) -> int:
    """The level by which the cases are told."""
    return int(str(levels["work"]))


def _named(slot: dict[str, Any]) -> dict[str, str]:
    return {"slot": slot["slot"]}


def _steps(begin: float, rate: float) -> str:
    """steps.jsonl of a trial at an even rate."""
    seconds = STEP_S * RATE / rate
    row = {"phase": "measured", "worker": 0, "items": RATE * STEP_S, "duration_s": seconds}
    rest = {"wall": 0.0, "input_s": 0.0, "compute_s": seconds, "exchange_s": 0.0}
    rows = [{"step": n, "mono": begin + n * seconds, **row, **rest} for n in range(STEPS)]
    return "\n".join(map(json.dumps, rows))


def opened(folder: Path, asked: Experiment, made: planning.Plan) -> Run:
    """The folder of a run of this plan, as the run stage opens it."""
    hosts = sorted({host for slot in made.slots for host in slot.hosts})
    plan = {
        **made.document(),
        **{"run": folder.name, "experiment": asked.model_dump(mode="json"), "digest": "p"},
        **{
            "experiment_digest": "e",
            "hosts": {host: {"substrate": "bare_metal"} for host in hosts},
        },
        **{"families": [IMAGE["family"]], "baseline": made.baseline, "factors": made.factors},
        **{"left_out": made.left_out, "confounds": made.confounds},
    }
    return opening.opened(folder, plan, [IMAGE], {}, "simulated", {host: {} for host in hosts})


def play(run: Run, hosts: Hosts) -> None:
    """Walk through what is to be measured, as `playbooks/run.yml` does."""
    for block in visits.of(run, run.to_measure()):
        if run.rebuild() < block["rebuild"]:
            _rebuild(run, block["rebuild"])
        for pair in block["pairs"]:
            if not run.stopped:
                _play(run, hosts, pair)


def _rebuild(run: Run, number: int) -> None:
    """Build the testbed again; it is the same."""
    run.event("rebuild_begun", rebuild=number)
    hosts = run.references()
    seen = rebuild.Seen(run.document["images"], [], {}, hosts, list(hosts))
    took = {"down": REBUILD_S / 3, "up": REBUILD_S * 2 / 3}
    rebuild.keep(run, seen, "2025-01-01T00:00:00Z", took, {})
    run.event("rebuilt", rebuild=number, number=number - 1, instances={})


def _play(run: Run, hosts: Hosts, pair: list[dict[str, Any]]) -> None:
    for slot in pair:
        run.store(slot, hosts.answer(slot, run.folder.name))
    number, due = run.due(run.pair(pair[-1]))
    last = min(run.latest()[trial][0] for trial in disturbed.measured(pair[-1]))
    if due and number > last:
        _play(run, hosts, due)
    else:
        stopping.look(run)
