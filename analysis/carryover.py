"""What a setting leaves to the one that is visited after it, beyond what a proof can see.

Every switch is proven clean (docs/networks.md). Whether a network measures the same whatever was
there before is a question to the figures: what a visit shows, against the baseline within it, is a
mean of its setting, an effect of the setting before, and chance. That is the model of a cross-over
with carry-over of the first order (Jones and Kenward, Design and Analysis of Cross-Over Trials,
chapter 1), by least squares. A balanced order (`visits` of docs/experiment.md) tells the two apart
best; any order does that has more visits than settings on either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import fdtrc

from .inference import Estimate
from .load import Loaded
from .pairing import arms

Array = NDArray[np.float64]
FEWEST = 2  # settings that something follows


class Visit(NamedTuple):
    """One switch to a setting. `before` is the setting that was switched to last, '' for none."""

    number: int
    setting: str
    before: str


class CarryOver(NamedTuple):
    """Of one metric: by setting, what it does to the one after it, as a log-ratio to the mean over
    all; and how likely so much is by chance alone where none does anything."""

    visits: int
    after: dict[str, Estimate]
    p: float


def visits(loaded: Loaded) -> dict[str, Visit]:
    """In which visit each slot was measured, as the journal tells it: of what was tried again, in
    the last."""
    found: dict[str, Visit] = {}
    now = Visit(0, "", "")
    for event in (each.model_dump() for each in loaded.journal):
        if event["event"] == "setting_begun":
            now = Visit(now.number + 1, str(event["setting"]), now.setting)
        elif event["event"] == "slot_finished":
            found[str(event["slot"])] = now
    return found


def carried(trials: pd.DataFrame, by: Mapping[str, Visit], metric: str) -> CarryOver | None:
    """What was left of each setting, by the ratios of this metric; None where the visits are too
    few to tell. `trials` are those of `matching.assign`."""
    shown: dict[Visit, list[float]] = {}
    for visit, value in _deviations(trials, by, metric):
        shown.setdefault(visit, []).append(value)
    known = {visit: float(np.mean(values)) for visit, values in shown.items() if visit.before}
    return fitted(known)


def _deviations(
    trials: pd.DataFrame, by: Mapping[str, Visit], metric: str
) -> Iterator[tuple[Visit, float]]:
    """Of each arm in each visit of its network, how far the mean of its log-ratios is from that of
    all its visits. What needs no switch says nothing of one."""
    if metric not in trials:
        return
    for arm in arms(trials):
        own: dict[Visit, list[float]] = {}
        for ours, theirs in arm.pairs:
            visit = by.get(str(trials["slot"].iloc[ours]), Visit(0, "", ""))
            both = trials[metric].iloc[[ours, theirs]].to_numpy(dtype=np.float64)
            if visit.setting == trials["network"].iloc[ours] and (both > 0).all():
                own.setdefault(visit, []).append(float(np.log(both[0] / both[1])))
        means = {visit: float(np.mean(values)) for visit, values in own.items()}
        over_all = sum(means.values()) / max(1, len(means))
        yield from ((visit, mean - over_all) for visit, mean in means.items())


def fitted(shown: Mapping[Visit, float]) -> CarryOver | None:
    """The model's effects of the setting before, which sum to zero; None where it has no answer."""
    settings = sorted({visit.setting for visit in shown})
    before = sorted({visit.before for visit in shown})
    if len(before) < FEWEST:
        return None
    own = np.array([[visit.setting == one for one in settings] for visit in shown], dtype=float)
    # Each against the mean over all: the last is what the others leave of zero.
    last = np.array([visit.before == before[-1] for visit in shown], dtype=float)
    left = np.array([[visit.before == one for one in before[:-1]] for visit in shown], dtype=float)
    design, values = np.hstack([own, left - last[:, None]]), np.array([*shown.values()])
    freedom = len(values) - design.shape[1]
    if freedom < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    variance = _rest(design, values) / freedom
    spread = variance * np.linalg.inv(design.T @ design)[len(settings) :, len(settings) :]
    effects = np.linalg.lstsq(design, values, rcond=None)[0][len(settings) :]
    # The rows give each effect from those that were fitted.
    every = np.vstack([np.eye(len(before) - 1), -np.ones(len(before) - 1)])
    errors = np.sqrt(np.diag(every @ spread @ every.T))
    found = zip(before, every @ effects, errors, strict=True)
    after = {name: Estimate(float(mean), float(error), freedom) for name, mean, error in found}
    explained = (_rest(own, values) - variance * freedom) / (len(before) - 1)
    return CarryOver(len(values), after, _chance(explained, variance, len(before) - 1, freedom))


def _rest(design: Array, values: Array) -> float:
    """The sum of squares that the model does not explain."""
    return float(((values - design @ np.linalg.lstsq(design, values, rcond=None)[0]) ** 2).sum())


def _chance(explained: float, variance: float, free: int, left: int) -> float:
    """That so much is explained where there is nothing to explain (the F test)."""
    if not variance > 0:
        return 0.0 if explained > 0 else 1.0
    return float(fdtrc(free, left, max(0.0, explained) / variance))
