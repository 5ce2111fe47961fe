"""What the two trials of a duet take from each other: memory bandwidth, caches, frequency.

Every arm has a duet with itself (A/A). How much faster or slower its trials are beside another arm
than beside their own like, in the same round, is what the other takes more or less than they do
themselves. That much of a change may be the other's doing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from . import inference
from .inference import Estimate
from .pairing import Arm, arms


class Taken(NamedTuple):
    """The log-ratio of an arm's values beside `beside` to those beside itself, over all cases."""

    short: str
    beside: str
    effect: Estimate
    rounds: int


def taken(trials: pd.DataFrame, name: str) -> list[Taken]:
    """Both directions for each arm off the baseline, by the metric `name`; without duets none.

    `trials` are those of `matching.assign`.
    """
    if name not in trials or not (trials["duet"] != "").any():
        return []
    logs = np.log(trials[name].to_numpy(dtype=np.float64))
    every = arms(trials)
    alike = {
        _place(trials, other): (logs[at] + logs[other]) / 2
        for arm in every
        if arm.is_control
        for at, other in arm.pairs
    }
    found: dict[tuple[str, str], list[tuple[Estimate, int]]] = {}
    for arm in every:
        for ours, beside, rows in _directions(trials, arm) if not arm.is_control else []:
            known = [(at, side) for at, side in rows if _place(trials, at) in alike]
            changes = [logs[at] - alike[_place(trials, at)] for at, _ in known]
            sides = np.array([side for _, side in known], dtype=np.int64)
            if known:
                effect = inference.of_duets(np.array(changes), sides)
                found.setdefault((ours, beside), []).append((effect, len(known)))
    return [
        Taken(*names, inference.of_cases([one for one, _ in cases]), sum(n for _, n in cases))
        for names, cases in found.items()
    ]


def _place(trials: pd.DataFrame, at: int) -> tuple[Any, ...]:
    """Of which cell a trial is, and in which round."""
    return tuple(trials[name].iloc[at] for name in ("cell", "block", "round"))


def _directions(trials: pd.DataFrame, arm: Arm) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """The arm beside its baseline, and the baseline beside it: names, and trials with sides."""
    if arm.pairs:
        other = str(trials["short"].iloc[arm.pairs[0][1]])
        both = list(zip(arm.pairs, arm.sides, strict=True))
        yield arm.short, other, [(at, side) for (at, _), side in both]
        yield other, arm.short, [(at, 3 - side) for (_, at), side in both]
