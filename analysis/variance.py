"""How much of a variance is between rebuilds of a testbed, and how much between repeats on one.

A value (on the logarithm) is a mean, what its rebuild has in common, and what is its own: the
random effects of one factor. The components come from the mean squares; where rebuilds have unequal
numbers of repeats, from the unweighted means of the rebuilds and the harmonic mean of the numbers
(Thomas and Hultquist, Annals of Statistics 6, 1978). Their intervals are the modified large-sample
ones of Ting, Burdick, Graybill, Jeyaratnam and Lu (Journal of Statistical Computation and
Simulation 35, 1990), the share's is that of the F distribution (Burdick and Graybill, Confidence
Intervals on Variance Components, 1992, chapter 3). A component below zero is shown as zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtri

from . import inference
from .inference import UPPER, Estimate

Array = NDArray[np.float64]
FEWEST = 2  # rebuilds; and so many values more than rebuilds tell what is within them


@dataclass(frozen=True)
class Part:
    """A component of the variance, or its share, with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Components:
    """Of the values of several rebuilds. `mean` is that over the rebuilds, each counting alike: its
    interval holds for a testbed that is built once more."""

    rebuilds: int
    repeats: float  # on a rebuild, as the harmonic mean
    between: Part
    within: Part
    share: Part  # of a single value's variance that is between rebuilds
    mean: Estimate


def components(groups: Sequence[Array]) -> Components | None:
    """Of the values by rebuild; None where they are too few to part the two."""
    groups = [group for group in groups if len(group)]
    counts = np.array([len(group) for group in groups], dtype=np.float64)
    free, left = len(groups) - 1, int(counts.sum()) - len(groups)
    if len(groups) < FEWEST or left < 1:
        return None
    means = np.array([group.mean() for group in groups])
    repeats = float(len(groups) / (1 / counts).sum())
    among = repeats * float(means.var(ddof=1))
    inside = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / left
    return Components(
        rebuilds=len(groups),
        repeats=repeats,
        between=_between(among, inside, free, left, repeats),
        within=Part(inside, inside / _chance(UPPER, left), inside / _chance(1 - UPPER, left)),
        share=_share(among, inside, free, left, repeats),
        mean=inference.of_pairs(means),
    )


def _between(among: float, inside: float, free: int, left: int, repeats: float) -> Part:
    """By the mean squares among the rebuilds and inside them, and their degrees of freedom."""
    f_upper, f_lower = (float(fdtri(free, left, level)) for level in (UPPER, 1 - UPPER))
    g = [1 - 1 / _chance(UPPER, n) for n in (free, left)]
    h = [1 / _chance(1 - UPPER, n) - 1 for n in (free, left)]
    cross_low = ((f_upper - 1) ** 2 - (g[0] * f_upper) ** 2 - h[1] ** 2) / f_upper
    cross_high = ((1 - f_lower) ** 2 - (h[0] * f_lower) ** 2 - g[1] ** 2) / f_lower
    low = (g[0] * among) ** 2 + (h[1] * inside) ** 2 + cross_low * among * inside
    high = (h[0] * among) ** 2 + (g[1] * inside) ** 2 + cross_high * among * inside
    found = among - inside
    ends = (found - math.sqrt(max(low, 0.0)), found, found + math.sqrt(max(high, 0.0)))
    low, value, high = (max(0.0, end) / repeats for end in ends)
    return Part(value, low, high)


def _share(among: float, inside: float, free: int, left: int, repeats: float) -> Part:
    """Of the variance of a single value."""
    if not inside > 0:
        known = 1.0 if among > 0 else math.nan
        return Part(known, known, known)
    ends = (float(fdtri(free, left, UPPER)), 1.0, float(fdtri(free, left, 1 - UPPER)))
    ratios = [max(0.0, (among / inside / f - 1) / repeats) for f in ends]
    low, value, high = (ratio / (1 + ratio) for ratio in ratios)
    return Part(value, low, high)


def _chance(level: float, freedom: int) -> float:
    """The quantile of a mean square over its expectation."""
    return float(chdtri(freedom, 1 - level)) / freedom


@dataclass(frozen=True)
class Cost:
    """Seconds that were measured: of building the testbed again, and of a round on it."""

    rebuild: float
    round: float


@dataclass(frozen=True)
class Next:
    """What an hour more buys: the standard error of the mean, now and after it."""

    rounds: float  # on each rebuild, where the hour buys most; infinite: none is worth its time
    now: float
    best: float  # in the hour, with so many rounds on each rebuild
    same: float  # with as many as there were
    staying: float  # on the testbed as it stands


def next_hour(found: Components, cost: Cost, seconds: float = 3600.0) -> Next | None:
    """Where it buys most; None without costs.

    The most is known of the mean, for the time, with sqrt(rebuild / round * within / between)
    rounds on each rebuild (Cochran, Sampling Techniques, 3rd edition, 1977, chapter 10).
    """
    between, within, repeats = found.between.value, found.within.value, found.repeats
    if not (cost.rebuild > 0 and cost.round > 0 and within > 0):
        return None

    def known(rounds: float) -> float:
        """Of the mean, from one rebuild with so many rounds: the inverse of a variance."""
        return 1 / (between + within / rounds)

    def hour(rounds: float) -> float:
        return seconds / (cost.rebuild + rounds * cost.round) * known(rounds)

    before = found.rebuilds * known(repeats)
    more = before - known(repeats) + known(repeats + seconds / cost.round)
    rounds, best = math.inf, more
    if between > 0:
        ideal = math.sqrt(cost.rebuild / cost.round * within / between)
        whole = max((max(1.0, math.floor(ideal)), max(1.0, math.ceil(ideal))), key=hour)
        if before + hour(whole) > more:
            rounds, best = whole, before + hour(whole)
    errors = (1 / math.sqrt(each) for each in (before, best, before + hour(repeats), more))
    return Next(rounds, *errors)
