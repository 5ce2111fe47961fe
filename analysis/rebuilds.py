"""What a run over several rebuilds of its testbed says of them: between, within, what is next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from . import variance
from .load import Loaded, usable
from .pairing import arms
from .variance import Components, Cost

Array = NDArray[np.float64]


class Varying(NamedTuple):
    """The components of one metric in one cell, or of its ratios to its baseline."""

    short: str
    case: str
    against: str  # the baseline of the ratios; '' for the cell's own values
    metric: str
    parts: Components


def varying(loaded: Loaded, trials: pd.DataFrame, metrics: list[str]) -> list[Varying]:
    """The ratios of each arm, then the values of each cell; empty where nothing was built again.

    `trials` are those of `matching.assign`. A/A arms are in it: their ratios vary by chance alone.
    """
    rebuilds = of_slots(loaded)
    if len(set(rebuilds.values())) < variance.FEWEST:
        return []
    named = [name for name in metrics if name in trials]
    return [*_ratios(trials, rebuilds, named), *_values(trials, rebuilds, named)]


def of_slots(loaded: Loaded) -> dict[str, int]:
    """On which build of the testbed each slot was measured, as the journal tells it.

    The plan says on which it was to be; what was tried again is on the one that was there then.
    """
    build, found = 1, {}
    for event in (each.model_dump() for each in loaded.journal):
        if event["event"] == "rebuilt":
            build += 1
        elif event["event"] == "slot_finished":
            found[str(event["slot"])] = build
    return found


def cost(loaded: Loaded) -> Cost:
    """What a rebuild took, and a round; NaN where the run does not tell."""
    took = [sum(rebuild.seconds.values()) for rebuild in loaded.rebuilds]
    rounds = {slot.slot: (slot.block, slot.round) for slot in loaded.plan.slots}
    begun: dict[str, float] = {}
    seconds, seen = 0.0, set()
    for event in (each.model_dump() for each in loaded.journal):
        slot = str(event.get("slot"))
        if event["event"] == "slot_started":
            begun[slot] = event["mono"]
        elif event["event"] == "slot_finished" and slot in begun and slot in rounds:
            seconds += event["mono"] - begun.pop(slot)
            seen.add(rounds[slot])
    return Cost(
        sum(took) / len(took) if took else math.nan, seconds / len(seen) if seen else math.nan
    )


def _ratios(
    trials: pd.DataFrame, rebuilds: dict[str, int], metrics: list[str]
) -> Iterator[Varying]:
    where = trials["slot"].map(rebuilds).to_numpy()
    for arm in arms(trials):
        at = np.array([place for place, _ in arm.pairs], dtype=np.int64)
        for name in metrics:
            both = trials[name].to_numpy(dtype=np.float64)[np.array(arm.pairs).reshape(-1, 2)]
            good = np.isfinite(both).all(axis=1) & (both > 0).all(axis=1)
            logs = np.log(both[good, 0] / both[good, 1])
            parts = variance.components(_by(logs, where[at][good]))
            if parts:
                other = str(trials["short"].iloc[arm.pairs[0][1]])
                yield Varying(arm.short, arm.case, other, name, parts)


def _values(
    trials: pd.DataFrame, rebuilds: dict[str, int], metrics: list[str]
) -> Iterator[Varying]:
    measured = usable(trials)
    for (short, case, _), group in measured.groupby(["short", "case", "cell"], sort=False):
        for name in metrics:
            values = group[name].to_numpy(dtype=np.float64)
            good = np.isfinite(values) & (values > 0)
            where = group["slot"].map(rebuilds).to_numpy()[good]
            parts = variance.components(_by(np.log(values[good]), where))
            if parts:
                yield Varying(str(short), str(case), "", name, parts)


def _by(values: Array, rebuilds: Array) -> list[Array]:
    return [values[rebuilds == number] for number in np.unique(rebuilds)]
