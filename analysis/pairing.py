"""Which trials are one observation: the two arms of a case in one round of one block.

They ran one right after the other on the same hosts, or, as a duet, at the same time in one slot,
so that what they share (the speed of the machine at that time, the host) is in neither's favour.
Where one of the two failed, is void or is missing, the pair is dropped: its other half alone would
put back what pairing takes out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sides = NDArray[np.int64]
CELL = ("case", "arm", "short", "match", "cell")
ROUND = ("match", "block", "round", "repetition", "duet", "together_s")


@dataclass
class Arm:
    """A cell off the baseline, with the places of its trials in the frame that it was made of.

    `trials` and `baseline` are those that ended well, `pairs` those of whole pairs, in the order of
    the rounds: the arm's trial, then the baseline's. `sides` says of each which half of its host
    the arm's trial had, 1 or 2, and 0 where it had all of it. `planned` is how many pairs the plan
    has.
    """

    case: str
    arm: str
    short: str
    cell: str
    is_control: bool
    planned: int
    cell_baseline: str = ""
    trials: list[int] = field(default_factory=list)
    baseline: list[int] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    sides: list[int] = field(default_factory=list)

    def values(self, frame: pd.DataFrame, name: str) -> tuple[Array, Array, Sides]:
        """The metric `name` of each whole pair, of the arm and of the baseline; and the side."""
        if name not in frame or not self.pairs:
            return np.array([]), np.array([]), np.array([], dtype=np.int64)
        both = frame[name].to_numpy(dtype=np.float64)[np.array(self.pairs)]
        known = np.isfinite(both).all(axis=1)
        ours, theirs = both[known].T
        return ours, theirs, np.array(self.sides)[known]

    def emulated(self, frame: pd.DataFrame) -> bool:
        """Whether any of its trials, or of its baseline's, ran where the CPU was emulated."""
        return bool(frame["emulated"].to_numpy()[[*self.trials, *self.baseline]].any())

    def has(self, frame: pd.DataFrame, name: str) -> tuple[bool, bool]:
        """Whether any trial of the arm, and of its baseline, has the metric `name`."""
        if name not in frame:
            return False, False
        known = np.isfinite(frame[name].to_numpy(dtype=np.float64))
        return bool(known[self.trials].any()), bool(known[self.baseline].any())


def arms(trials: pd.DataFrame) -> list[Arm]:
    """Every cell off the baseline, the cases and arms in the order of the page.

    One without a trial that ended well, or without a baseline, has no pairs: a hole is seen.
    """
    places = np.arange(len(trials))
    measured = places[(trials["role"] == "measured").to_numpy()]
    good = set(measured[(trials["status"] == "ok").to_numpy()[measured]].tolist())
    names = {*CELL, *ROUND, "is_control", "planned", "side"}
    told = {name: trials[name].to_list() for name in names}
    is_reference = trials["is_reference"].to_numpy()
    references: dict[str, list[int]] = defaultdict(list)
    rounds: dict[tuple[Any, ...], int] = {}
    for at in measured.tolist():
        if is_reference[at] and at in good:
            references[told["match"][at]].append(at)
            # A round has every cell once; were there two of the baseline, the first is the pair's.
            rounds.setdefault(_round(told, at), at)
    found: dict[tuple[str, ...], Arm] = {}
    for at in measured.tolist():
        if not is_reference[at]:
            key = tuple(str(told[name][at]) for name in CELL)
            in_duet, other = told["duet"][at], rounds.get(_round(told, at))
            # Of a duet only the one beside it is what a trial is compared with.
            baseline = [] if in_duet else references[told["match"][at]]
            arm = found.setdefault(key, _arm(told, at, baseline))
            if in_duet and other is not None:
                arm.baseline.append(other)
            if at in good:
                arm.trials.append(at)
                if other is not None:
                    arm.pairs.append((at, other))
                    arm.sides.append(int(told["side"][at]))
    for arm in found.values():
        if arm.baseline:
            arm.cell_baseline = str(told["cell"][arm.baseline[0]])
    return [found[key] for key in sorted(found)]


def _arm(told: dict[str, list[Any]], at: int, baseline: list[int]) -> Arm:
    case, arm, short, _, cell = (str(told[name][at]) for name in CELL)
    control, planned = bool(told["is_control"][at]), int(told["planned"][at])
    return Arm(case, arm, short, cell, control, planned, baseline=baseline)


def _round(told: dict[str, list[Any]], at: int) -> tuple[Any, ...]:
    """Where two trials are compared. Records of before schema 3 did not say in which round they
    are: there, the repetition is it. Two of a duet say how long they were measured together, which
    tells one attempt of their slot from another."""
    match, block, number, repetition, duet, together = (told[name][at] for name in ROUND)
    if duet:
        return (duet, together)
    return (match, block, number) if number else (match, "", repetition)
