"""What pairs say: an effect with its interval, and how small an effect they could have shown.

An observation is one pair: the two arms of a case in one round, on the same hosts. On the logarithm
its difference is a log-ratio, whose mean is the geometric mean of the ratios. Every case keeps the
variance of its own pairs. Several cases together are the mean of theirs, each counting alike,
with the degrees of freedom of Welch (1947) and Satterthwaite (1946): nothing is pooled, since one
variance over cases of unequal noise calls a difference too often in the noisiest.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Array = NDArray[np.float64]

LEVEL = 0.95
UPPER = (1 + LEVEL) / 2
# An effect counts as one that a run could see where so many runs like it find it. Nine in ten with
# normal noise leave eight in ten where single trials are far off.
POWER = 0.9


@dataclass(frozen=True)
class Estimate:
    """A mean over pairs with its standard error; NaN where a number of pairs does not give one."""

    mean: float
    error: float = math.nan
    freedom: float = math.nan

    @property
    def half_width(self) -> float:
        """Of the 95 % interval."""
        return self.error * _quantile(UPPER, self.freedom)

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    @property
    def p(self) -> float:
        """Of no difference, on both sides (Student's t)."""
        if not self.error > 0:
            return math.nan if math.isnan(self.error) else float(self.mean == 0)
        return float(2 * stdtr(self.freedom, -abs(self.mean / self.error)))

    @property
    def detectable(self) -> float:
        """The least effect that would have been found with these pairs in POWER of all runs.

        Were it added to the pairs, their t would exceed t(0.975) as often as Student's t exceeds
        -t(0.9), which is in 90 of 100 runs, however large the noise.
        """
        return self.error * (_quantile(UPPER, self.freedom) + _quantile(POWER, self.freedom))


NOTHING = Estimate(math.nan)


@dataclass(frozen=True)
class Anytime(Estimate):
    """A mean over independent observations, whose interval holds at every look at once.

    Whoever looks after each observation, and stops when it pleases him, is still wrong in at most
    5 of 100 runs. It is the confidence sequence of the t-test with a normal mixture over the
    standardised effect, of unit variance (Lai, Annals of Statistics 4, 1976; Wang and Ramdas,
    Sequential Analysis 44, 2025): a martingale in the number of observations where the mean is 0,
    which exceeds 1 / 0.05 at any time with a probability of 0.05 at most (Ville).
    """

    @property
    def _shrunk(self) -> float:
        """By which the mixture shrinks t squared."""
        return 1 / (self.freedom + 2)

    @property
    def half_width(self) -> float:
        """Of the interval; infinite below five observations."""
        if math.isnan(self.error):
            return math.nan
        count = self.freedom + 1
        most = (1 / ((1 - LEVEL) ** 2 * self._shrunk)) ** (1 / count)
        left = 1 - most * self._shrunk
        if left <= 0:
            return math.inf
        return self.error * math.sqrt(self.freedom * (most - 1) / left)

    @property
    def p(self) -> float:
        """Of no difference, at any time: the inverse of the martingale."""
        if not self.error > 0:
            return super().p
        square = (self.mean / self.error) ** 2
        grown = (self.freedom + square) / (self.freedom + square * self._shrunk)
        log = (math.log(self._shrunk) + (self.freedom + 1) * math.log(grown)) / 2
        return min(1.0, math.exp(-log))

    @property
    def detectable(self) -> float:
        """The least effect that nine in ten of such runs would have found when they ended."""
        return self.half_width + self.error * _quantile(POWER, self.freedom)


def of_pairs(differences: Array) -> Estimate:
    """The mean of one case's pairs: log-ratios, or differences in a unit."""
    count = len(differences)
    if count == 0:
        return NOTHING
    mean = float(differences.mean())
    if count == 1:
        return Estimate(mean)
    return Estimate(mean, float(differences.std(ddof=1)) / math.sqrt(count), count - 1)


def of_duets(differences: Array, sides: NDArray[np.int64]) -> Estimate:
    """The same of pairs in which the arm had side 1 or 2 of its host, or 0 for all of it.

    What sets the two sides apart is taken out: the mean of the means of either side, with the
    variance within them (a cross-over; Jones and Kenward, Design and Analysis of Cross-Over Trials,
    chapter 2). Where all had one side it cannot be told from the arm.
    """
    both = [differences[sides == side] for side in (1, 2)]
    counts = [len(one) for one in both]
    if not all(counts):
        return of_pairs(differences)
    mean, freedom = float(np.mean([one.mean() for one in both])), len(differences) - 2
    if freedom < 1:
        return Estimate(mean)
    variance = sum(float(((one - one.mean()) ** 2).sum()) for one in both) / freedom
    return Estimate(mean, math.sqrt(variance * sum(1 / n for n in counts)) / 2, freedom)


def at_any_time(cases: Sequence[Array]) -> Estimate:
    """The mean of several cases by their observations in order (see `balanced`), each case counting
    alike: the first of each is one, the second, and so on."""
    count = min(map(len, cases), default=0)
    if count == 0:
        return NOTHING
    values = np.mean([own[:count] for own in cases], axis=0)
    if count == 1:
        return Estimate(float(values[0]))
    error = float(values.std(ddof=1)) / math.sqrt(count)
    found = Anytime(float(values.mean()), error, count - 1)
    return found if math.isfinite(found.half_width) else Estimate(found.mean)


def balanced(differences: Array, sides: NDArray[np.int64]) -> Array:
    """The observations of one case in order: its pairs; of duets the means of two, with the arm on
    either side, so that what sets the sides apart is in none."""
    if not sides.all():
        return differences
    both = [differences[sides == side] for side in (1, 2)]
    count = min(map(len, both))
    return np.asarray((both[0][:count] + both[1][:count]) / 2)


def of_cases(cases: Sequence[Estimate]) -> Estimate:
    """The mean of several cases, each counting alike, none lending another its noise."""
    if not cases:
        return NOTHING
    mean = float(np.mean([case.mean for case in cases]))
    return Estimate(mean, *_combined([case.error for case in cases], cases, len(cases)))


def of_contrast(first: Estimate, second: Estimate) -> Estimate:
    """`first` less `second`, which are independent of each other: two runs, say."""
    errors = [first.error, second.error]
    return Estimate(first.mean - second.mean, *_combined(errors, [first, second], 1))


def _combined(errors: Sequence[float], parts: Sequence[Estimate], over: int) -> tuple[float, float]:
    """The standard error of a sum over `over`, and its degrees of freedom."""
    variances = [error**2 for error in errors]
    total = sum(variances)
    spread = sum(v**2 / part.freedom for v, part in zip(variances, parts, strict=True))
    least = min(part.freedom for part in parts)
    freedom = max(least, total**2 / spread) if spread > 0 else least
    return math.sqrt(total) / over, freedom


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, by Holm's step-down procedure (1979); NaN stays NaN."""
    known = sorted((value, place) for place, value in enumerate(values) if not math.isnan(value))
    found, worst = [math.nan] * len(values), 0.0
    for rank, (value, place) in enumerate(known):
        worst = max(worst, min(1.0, value * (len(known) - rank)))
        found[place] = worst
    return found


def ratio(logarithm: float) -> float:
    """What a log-ratio is as a ratio; infinite beyond all numbers."""
    return math.inf if logarithm > math.log(sys.float_info.max) else math.exp(logarithm)


def _quantile(level: float, freedom: float) -> float:
    return float(stdtrit(freedom, level)) if freedom > 0 else math.nan
