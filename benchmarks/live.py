"""How wide is the answer at equal machine time, and does a co-tenant move it? On this machine.

    python -m benchmarks.live [--rounds 16] [--cases 2]

Native against Docker with the workload `spin`, as root on a machine that has been deployed once
(`site.yml --tags deploy`). Three designs take turns in each round, in random order, with as many
slots: rounds that are shuffled, pairs that are adjacent, and duets. In a random half of the rounds
a co-tenant takes what it can get of one CPU. Nothing is void: that the rule on disturbed trials
would strike such rounds is another remedy, and is left out here.

Printed are the widths of the intervals over all cases with and without the co-tenant, the plain
trials unpaired beside them, and by how much the co-tenant moved each ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from strata.errors import Refused
from strata.trial import slot as trial
from strata.trial.order import Order

from analysis import inference
from analysis.inference import Estimate
from controller import merge, metrics, plan
from controller.experiment import Experiment
from tests.burner import Burner

STATE = Path("/var/lib/strata")
DESIGNS = ("shuffled", "adjacent", "duets")
LIMIT_S = 120.0
ATTEMPTS = 5
# Hashes of a step in the first case; each other one takes twice as long.
STEPS, WORK = 20, 60_000


def image() -> dict[str, str]:
    """That of `spin`, natively and in Docker. Raises Refused where it has not been deployed."""
    found = list((STATE / "images").glob("python-*/known.json"))
    if len(found) != 1:
        raise Refused(
            "this machine holds one image of the family python",
            given=f"{len(found)} in {STATE / 'images'}",
            then="ansible-playbook site.yml --tags deploy -e strata_experiment=...",
        )
    content = json.loads(found[0].read_text())["digest"]
    names = {"family": "python", "kind": "rootfs", "digest": content}
    return {**names, "rootfs": str(found[0].parent / "rootfs")}


def planned(design: str, rounds: int, cases: int) -> list[list[plan.Slot]]:
    """The slots of each round: for pairs two a case, for duets a slot a case, twice."""
    asked = Experiment.model_validate({
        **{"name": "live", "title": "Live", "workload": "spin", "control": False},
        "factors": {"runtime": ["native", "docker"], "work": [WORK * 2**n for n in range(cases)]},
        **{"options": {"steps": STEPS, "warmup_steps": 2}, "baseline": {"runtime": "native"}},
        "repeats": 2 * rounds if design == "duets" else rounds,
        **{"design": "duet" if design == "duets" else "pairs", "disturbed": False},
    })  # fmt: skip
    here = plan.Host("localhost", "vm", ("native", "docker"), 2, siblings=((0,), (1,)))
    slots = plan.make(asked, [here]).slots
    each = 2 * cases
    found = [slots[at : at + each] for at in range(0, len(slots), each)]
    return [random.sample(own, each) for own in found] if design == "shuffled" else found


def measured(slot: plan.Slot, held: dict[str, str], state: Path) -> dict[str, dict[str, Any]]:
    """Run a slot, and once more where a trial fails: beside a co-tenant one of a duet may begin
    when the other has ended. Its records by runtime. Raises Refused where trials go on failing.
    """
    for _ in range(ATTEMPTS):
        records = attempt(slot, held, state)
        failed = [record["reason"] for record in records if record["status"] != "ok"]
        if not failed:
            return {record["levels"]["runtime"]: record for record in records}
        print(f"again: {failed[0]['message']}", flush=True)
    raise Refused(f"a slot ends well in {ATTEMPTS} attempts", given=str(failed[0]))


def attempt(slot: plan.Slot, held: dict[str, str], state: Path) -> list[dict[str, Any]]:
    """Run a slot; its records."""
    told = {**asdict(slot), "run": "live"}
    order = Order(told, "localhost", {"python": held}, {}, {}, LIMIT_S, state, judged=False)
    outcomes = merge.slot(
        told["trials"], trial.run(order, lambda: False), metrics.declared(["spin"])
    )
    return [outcome["record"] for outcome in outcomes]


class Ratios:
    """What one design has measured: by case, the log-ratios of its pairs with the side that Docker
    had, and the logarithms of each arm."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._pairs: dict[int, list[tuple[float, int]]] = {}
        self._arms: dict[int, dict[str, list[float]]] = {}

    def add(self, found: list[dict[str, dict[str, Any]]]) -> None:
        """The records of a round's slots."""
        waiting: dict[int, dict[str, dict[str, Any]]] = {}
        for records in found:
            work = int(next(iter(records.values()))["levels"]["work"])
            both = waiting.setdefault(work, {})
            both |= records
            if len(both) == len(("native", "docker")):
                self._note(work, waiting.pop(work))

    def _note(self, work: int, both: dict[str, dict[str, Any]]) -> None:
        logs = {name: math.log(r["metrics"][self._metric]["value"]) for name, r in both.items()}
        side = (both["docker"]["duet"] or {}).get("side", 0)
        self._pairs.setdefault(work, []).append((logs["docker"] - logs["native"], side))
        arms = self._arms.setdefault(work, {"native": [], "docker": []})
        for name, log in logs.items():
            arms[name].append(log)

    def paired(self) -> Estimate:
        """Over all cases, by pairs."""
        cases = []
        for pairs in self._pairs.values():
            changes, sides = (np.array(each) for each in zip(*pairs, strict=True))
            cases.append(inference.of_duets(changes, sides))
        return inference.of_cases(cases)

    def unpaired(self) -> Estimate:
        """The same trials as if they had no rounds."""
        both = [
            inference.of_contrast(*(inference.of_pairs(np.array(arms[n])) for n in sorted(arms)))
            for arms in self._arms.values()
        ]
        return inference.of_cases(both)


def run(rounds: int, cases: int) -> dict[tuple[str, bool], Ratios]:
    """Measure; what each design saw without and with the co-tenant."""
    held = image()
    slots = {design: planned(design, rounds, cases) for design in DESIGNS}
    beside = random.sample([True, False] * ((rounds + 1) // 2), rounds)
    found = {
        (design, tenant): Ratios("rate_together" if design == "duets" else "rate")
        for design in DESIGNS
        for tenant in (False, True)
    }
    with tempfile.TemporaryDirectory() as folder:
        for number, tenant in enumerate(beside):
            with Burner() if tenant else contextlib.nullcontext():
                for design in random.sample(DESIGNS, len(DESIGNS)):
                    own = slots[design][number]
                    records = [measured(slot, held, Path(folder)) for slot in own]
                    found[design, tenant].add(records)
            print(f"round {number + 1} of {rounds}{', beside a co-tenant' * tenant}", flush=True)
    return found


def lines(found: dict[tuple[str, bool], Ratios]) -> Iterator[str]:
    """The table; all in percent."""
    yield f"{'design':10} {'co-tenant':9} {'change':>7} {'width':>7} {'unpaired':>9}"
    for (design, tenant), ratios in found.items():
        paired, plain = ratios.paired(), ratios.unpaired()
        yield (
            f"{design:10} {'yes' if tenant else 'no':9} {percent(paired.mean):7.1f}"
            f" {percent(2 * paired.half_width):7.1f} {percent(2 * plain.half_width):9.1f}"
        )
    for design in DESIGNS:
        moved = inference.of_contrast(found[design, True].paired(), found[design, False].paired())
        yield (
            f"{design}: the co-tenant moved the ratio by {percent(moved.mean):+.1f} %"
            f" ({percent(moved.low):+.1f} .. {percent(moved.high):+.1f} %)"
        )


def percent(log: float) -> float:
    """A log-ratio as a change."""
    return 100 * (math.exp(log) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--cases", type=int, default=2)
    given = parser.parse_args()
    for line in lines(run(given.rounds, given.cases)):
        print(line)


if __name__ == "__main__":
    main()
