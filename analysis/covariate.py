"""What the speed of the hosts explains: the reference burst as covariate, beside the plain pairs.

Right before and right after each trial its hosts do the same short work, outside of every platform.
What two trials of a pair differ in there is the machine's doing and not the platform's, so it may
be taken out (analysis of covariance; Fisher, Statistical Methods for Research Workers, section
49.1). The figure is no verdict, and stands beside the plain one, never in its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from .inference import Estimate
from .pairing import Arm, Array, arms

BURSTS = ("reference_before", "reference_after")
# Fewer degrees of freedom say nothing of a slope.
FEWEST_FREE = 4


def adjusted(trials: pd.DataFrame, name: str) -> dict[str, tuple[Estimate, float]]:
    """By arm off the baseline: its mean log-ratio over all cases at equal speed of the hosts, and
    how many percent the metric `name` changes with one percent of that speed.

    Each case has a level of its own, the slope is common to them. An arm is left out where its
    pairs are too few, or lack a burst.
    """
    if not {name, *BURSTS} <= set(trials):
        return {}
    speed = np.log(trials[list(BURSTS)].mean(axis=1).to_numpy(dtype=np.float64))
    values = trials[name].to_numpy(dtype=np.float64)
    named: dict[str, list[Arm]] = {}
    for arm in arms(trials):
        named.setdefault(arm.arm, []).append(arm)
    found = {arm: _fitted(cases, values, speed) for arm, cases in named.items()}
    return {arm: fit for arm, fit in found.items() if fit is not None}


def _fitted(cases: Sequence[Arm], values: Array, speed: Array) -> tuple[Estimate, float] | None:
    changes, faster, levels = [], [], []
    used = [case.pairs for case in cases if case.pairs]
    for number, pairs in enumerate(used):
        ours, theirs = np.array(pairs).T
        if not ((values[ours] > 0) & (values[theirs] > 0)).all():
            return None
        changes.append(np.log(values[ours] / values[theirs]))
        faster.append(speed[ours] - speed[theirs])
        levels.append(np.eye(len(used))[np.full(len(pairs), number)])
    if not used:
        return None
    x, y = np.concatenate(faster), np.concatenate(changes)
    design = np.column_stack([*np.concatenate(levels).T, x])
    freedom = len(y) - design.shape[1]
    if freedom < FEWEST_FREE or not np.isfinite(design).all():
        return None
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    inverse = np.linalg.inv(design.T @ design)
    fit = inverse @ design.T @ y
    left = y - design @ fit
    mean = np.append(np.full(len(used), 1 / len(used)), 0.0)
    variance = float(left @ left) / freedom * float(mean @ inverse @ mean)
    return Estimate(float(mean @ fit), math.sqrt(variance), freedom), float(fit[-1])
