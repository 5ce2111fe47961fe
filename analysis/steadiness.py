"""Is the measured window of a trial steady? A doubt is flagged; nothing is cut.

Steps of a trial are not independent: caches, clocks and neighbours make a slow step follow a slow
one. What differs within a window is held against how much its level wanders by itself: the
long-run variance of what is left when the difference is taken out, from its lag-1 correlation
(Andrews, Econometrica 59, 1991), which is corrected for its bias in short series (Marriott and
Pope, Biometrika 41, 1954). A short window hardly knows it. So, from four trials of a cell on, that
of all of them is taken: their medians, which a few disturbed ones do not move.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Fewer measured steps than three thirds of this are not judged.
FEWEST_IN_THIRD = 5
FEWEST = 3 * FEWEST_IN_THIRD
# A window is not steady when it differs by both: so much of the step, and so many long-run standard
# errors. The largest of many stretches is looked at, and the correlation is itself estimated: in
# simulations fewer than 5 in 100 steady windows reach this, up to a correlation of 0.95.
SHARE = 0.05
ERRORS = 9.0
# Where the yardstick is that of so many trials or more, it is known better, and fewer are enough.
FEWEST_TRIALS = 4
ERRORS_OF_CELL = 7.0
# Long windows are judged by the means of so many parts, which are less correlated than steps.
PARTS = 60
SHORTEST = 6  # the least stretch that can be told, as one part in so many of the window
MOST_CORRELATED = 0.95
# An outlier is so many robust standard deviations from the median, and by this share of it; where
# there are more of them than one in ten, they are no outliers but a level.
FAR, FAR_SHARE, RARE = 6.0, 0.25, 0.1
MAD_TO_SD = 1.4826
SILENT = 1e-9  # of a logarithm: less is what computing leaves of nothing


class Level(NamedTuple):
    """What was found in a window: steps `begin` to `end` (from 0, without the last) are apart.

    `share` is how much slower (or, below 0, faster) they are than the rest; of a trend, the last
    step than the first. `errors` are the long-run standard errors of that.
    """

    begin: int
    end: int
    share: float
    errors: float
    trend: bool
    most: float = ERRORS  # so many errors are nothing

    @property
    def found(self) -> bool:
        return abs(self.share) > SHARE and self.errors > self.most


class Yardstick(NamedTuple):
    """How much the level of a cell's windows wanders by itself: the long-run variance of what is
    left beside a stretch, and beside a trend (of logarithms)."""

    stretch: float
    trend: float


STEADY = Level(0, 0, 0.0, 0.0, False)


def outliers(durations: Array) -> NDArray[np.bool_]:
    """Which steps are single ones far from all others; none where there are many."""
    middle = float(np.median(durations))
    away = np.abs(durations - middle)
    spread = MAD_TO_SD * float(np.median(away))
    far = (away > FAR * spread) & (away > FAR_SHARE * middle)
    return far if far.mean() <= RARE else np.zeros_like(far)


def level(durations: Array, of_cell: Yardstick | None = None) -> Level:
    """The stretch, or the trend, that stands out most in a window of steps. Outliers do not count.

    A stretch may lie anywhere, so that thirds of all kinds are compared: a slow middle is found as
    well as a slow end. Without the yardstick of its cell a window is held against its own.
    """
    parts, edges = _parts(durations)
    (stretch, size, left), (trend, rise, rest) = _stretch(parts), _trend(parts)
    own = of_cell or Yardstick(_long_run([left]), _long_run([rest]))
    found = [
        each._replace(errors=_errors(scaled, variance), most=ERRORS_OF_CELL if of_cell else ERRORS)
        for each, scaled, variance in ((stretch, size, own.stretch), (trend, rise, own.trend))
    ]
    most = max(found, key=lambda each: each.errors)
    return most._replace(begin=int(edges[most.begin]), end=int(edges[most.end]))


def yardstick(windows: Sequence[Array]) -> Yardstick | None:
    """That of the windows of one cell; None where they are too few to know it any better."""
    if len(windows) < FEWEST_TRIALS:
        return None
    every = [_parts(durations)[0] for durations in windows]
    return Yardstick(*(_long_run([look(p)[2] for p in every]) for look in (_stretch, _trend)))


def _parts(durations: Array) -> tuple[Array, NDArray[np.int64]]:
    """The means of the logarithms of neighbouring steps, and where each of these parts begins."""
    far = outliers(durations)
    logs = np.log(np.where(far, np.median(durations), durations))
    edges = np.linspace(0, len(logs), min(len(logs), PARTS) + 1).round().astype(np.int64)
    return np.add.reduceat(logs, edges[:-1]) / np.diff(edges), edges


def _stretch(parts: Array) -> tuple[Level, float, Array]:
    """The stretch, how far it is apart in standard deviations of a part, and what is left."""
    count = len(parts)
    least = max(2, count // SHORTEST)
    begins, ends = np.triu_indices(count + 1, 1)
    length = ends - begins
    kept = (length >= least) & (count - length >= least)
    begins, ends, length = begins[kept], ends[kept], length[kept]
    sums = np.concatenate([[0.0], np.cumsum(parts - parts.mean())])
    inside = sums[ends] - sums[begins]
    scaled = inside * np.sqrt(count / (length * (count - length)))
    at = int(np.argmax(np.abs(scaled)))
    begin, end = int(begins[at]), int(ends[at])
    # Of the two levels the shorter one is the stretch, so that "the others" are the most.
    apart = np.zeros(count)
    apart[begin:end] = 1.0
    change = inside[at] * count / (length[at] * (count - length[at]))
    left = parts - parts.mean() - change * (apart - apart.mean())
    if end - begin > count / 2 and 0 in (begin, count - end):
        begin, end, change = (0, begin, -change) if begin else (end, count, -change)
    found = Level(begin, end, float(np.expm1(change)), np.nan, False)
    return found, float(abs(scaled[at])), left


def _trend(parts: Array) -> tuple[Level, float, Array]:
    """The same of a trend."""
    count = len(parts)
    along = np.linspace(-0.5, 0.5, count)
    rise = float(along @ parts / (along @ along))
    left = parts - parts.mean() - rise * along
    scaled = abs(rise) * float(np.sqrt(along @ along))
    return Level(0, count, float(np.expm1(rise)), np.nan, True), scaled, left


def _errors(scaled: float, long_run: float) -> float:
    """How many long-run standard deviations a difference is."""
    if long_run == 0:  # no noise at all: any difference is one
        return np.inf if scaled > SILENT else 0.0
    return float(scaled / np.sqrt(long_run))


def _long_run(every: Sequence[Array]) -> float:
    """The long-run variance of what is left of windows, by the medians of their variances and
    correlations. What is left has lost two means, for which both are corrected."""
    variances, correlations = [], []
    for left in every:
        count, power = len(left), float(left @ left)
        silent = power < count * SILENT**2
        variances.append(0.0 if silent else power / (count - 2))
        raw = 0.0 if silent else float(left[1:] @ left[:-1]) / power
        correlations.append((count * raw + 2) / (count - 6))
    correlation = min(max(float(np.median(correlations)), 0.0), MOST_CORRELATED)
    return float(np.median(variances)) * (1 + correlation) / (1 - correlation)


def judge(steps: pd.DataFrame, cells: Mapping[str, str] | None = None) -> pd.DataFrame:
    """A row a trial with measured steps: trial, judged, steady, state, drift (share), detail,
    outliers (how many steps), of (how many there are).

    `state` is `steady`, `not_steady` where a stretch is apart and the rest is steady, or
    `no_steady_state` where the window goes on changing or no rest of it is steady. What is judged
    is the time for an item, of the slowest worker of a step: some workloads do as much in every
    step, others work for as long. A step in which nothing was done counts as one item. `cells` says
    of which cell each trial is; without it, every window is held against itself.
    """
    columns = ["trial", "judged", "steady", "state", "drift", "detail", "outliers", "of"]
    if steps.empty:
        return pd.DataFrame(columns=columns)
    windows = _windows(steps)
    alike: dict[str, list[Array]] = defaultdict(list)
    for trial, durations in windows.items():
        if len(durations) >= FEWEST:
            alike[(cells or {}).get(trial, trial)].append(durations)
    yardsticks = {cell: yardstick(own) for cell, own in alike.items()}
    rows = []
    for trial, durations in windows.items():
        judged = len(durations) >= FEWEST
        of_cell = yardsticks.get((cells or {}).get(trial, trial))
        state, found = _state(durations, of_cell) if judged else ("steady", STEADY)
        rows.append(
            {
                **{"trial": trial, "judged": judged, "steady": state == "steady", "state": state},
                **{"drift": found.share if found.found else 0.0},
                "detail": _said(found, len(durations)) if found.found else "",
                "outliers": int(outliers(durations).sum()) if judged else 0,
                "of": len(durations),
            }
        )
    return pd.DataFrame(rows, columns=columns)


def _windows(steps: pd.DataFrame) -> dict[str, Array]:
    """By trial, the time for an item of each measured step in order, of its slowest worker.

    By hand, since a million rows grouped by two keys take a hundred megabytes more.
    """
    measured = (steps["phase"] == "measured").to_numpy()
    if not measured.any():
        return {}
    trials, step = pd.Categorical(steps["trial"][measured]), steps["step"].to_numpy()[measured]
    items = steps["items"].to_numpy(dtype=np.float64)[measured]
    each = steps["duration_s"].to_numpy(dtype=np.float64)[measured] / np.fmax(items, 1)
    order = np.lexsort((step, trials.codes))
    codes, step = trials.codes[order], step[order]
    new_trial = np.diff(codes, prepend=-1) != 0
    first = np.flatnonzero(new_trial | (np.diff(step, prepend=0) != 0))
    slowest = np.maximum.reduceat(each[order], first)
    begins = np.flatnonzero(new_trial[first])
    names = trials.categories[codes[first[begins]]].astype(str)
    return dict(zip(names, np.split(slowest, begins[1:]), strict=True))


def _state(durations: Array, of_cell: Yardstick | None) -> tuple[str, Level]:
    found = level(durations, of_cell)
    if not found.found:
        return "steady", found
    rest = np.delete(durations, np.s_[found.begin : found.end])
    if found.trend or (len(rest) >= FEWEST and level(rest, of_cell).found):
        return "no_steady_state", found
    return "not_steady", found


def _said(found: Level, count: int) -> str:
    change = f"{abs(found.share):.0%} {'slower' if found.share > 0 else 'faster'}"
    if found.trend:
        return f"the measured steps go on changing: the last is {change} than the first"
    where = f"measured steps {found.begin + 1} to {found.end} of {count}"
    return f"{where} are {change} than the others"


def contradictions(steps: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Trials whose median step is not the one that their record says, as flags.

    Of lone trials: of several workers, the record's is made of all of theirs.
    """
    if steps.empty or "step_median" not in trials:
        return pd.DataFrame(columns=["trial", "name", "detail"])
    measured = steps[steps["phase"] == "measured"].groupby("trial")["duration_s"].median()
    alone = trials[~trials["hosts"].str.contains(",") & (trials.get("workers", 1) == 1)]
    said = dict(zip(alone["trial"], alone["step_median"], strict=True))
    far = {
        str(trial): (seconds, said[trial])
        for trial, seconds in measured.items()
        if said.get(trial, 0) > 0 and abs(seconds / said[trial] - 1) > SHARE
    }
    detail = [
        f"step_median is {recorded:.4g} s in the record, and {seconds:.4g} s in its steps"
        for seconds, recorded in far.values()
    ]
    return pd.DataFrame({"trial": list(far), "name": "contradiction", "detail": detail})


def flags(judged: pd.DataFrame) -> pd.DataFrame:
    """The doubts that steps raise, as flags: trial, name, detail."""
    doubtful = judged[~judged["steady"].astype(bool)]
    far = judged[judged["outliers"].astype(int) > 0]
    single = [
        f"{few} of {of} measured steps are far from all others; they count"
        for few, of in zip(far["outliers"], far["of"], strict=True)
    ]
    return pd.DataFrame(
        {
            "trial": [*doubtful["trial"], *far["trial"]],
            "name": [*doubtful["state"], *(["outliers"] * len(far))],
            "detail": [*doubtful["detail"], *single],
        }
    )
