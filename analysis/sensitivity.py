"""How the answer changes when trials near in time resemble each other: a model beside the pairs.

The logarithm of a metric is an effect of its case, an effect of its arm, and noise of two kinds:
one that each trial has for itself, and one that lasts and fades from trial to trial by a factor
(AR(1)), as the speed of a machine does. How much there is of each, and how fast it fades, is found
by restricted maximum likelihood (Patterson and Thompson 1971). The figure is no verdict: unlike the
pairs, it has one variance for all cases.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.optimize import minimize

from . import inference
from .inference import Estimate
from .load import usable

Array = NDArray[np.float64]
FEWEST_CELLS = 6
NONE = dict.fromkeys(("model_ratio", "model_low", "model_high", "model_correlation"), math.nan)
# The share of the noise that lasts, and how much of it is left in the next trial: where to begin.
START = (0.5, 0.7)
TINY = 1e-300


def fit(trials: pd.DataFrame, name: str) -> dict[str, dict[str, float]]:
    """By arm off the baseline: the ratio over all cases, its interval, and the correlation of one
    trial's lasting noise with the next one's. `trials` are in the order in which they ran.

    Empty below six cells, and where a value has no logarithm.
    """
    chosen = usable(trials)
    chosen = chosen[chosen[name].notna()] if name in chosen else chosen.iloc[:0]
    if chosen["cell"].nunique() < FEWEST_CELLS or not (chosen[name] > 0).all():
        return {}
    design, arms = _design(chosen)
    if not arms or len(chosen) <= design.shape[1] + 1:
        return {}
    return _estimates(np.log(chosen[name].to_numpy(dtype=np.float64)), design, arms)


def _design(trials: pd.DataFrame) -> tuple[Array, list[str]]:
    """A column for each arm off the baseline, and one for each group that is compared."""
    arms = sorted(set(trials.loc[~trials["is_baseline"], "arm"]))
    columns = [trials["arm"] == arm for arm in arms]
    columns += [trials["match"] == match for match in sorted(set(trials["match"]))]
    design = np.column_stack(columns).astype(np.float64)
    independent = np.linalg.matrix_rank(design) == design.shape[1]
    return design, arms if independent else []


def _estimates(values: Array, design: Array, arms: list[str]) -> dict[str, dict[str, float]]:
    scale = float(values.std()) or 1.0
    # By columns, as the solver wants it: else it copies all of it each time.
    data = np.asfortranarray(np.column_stack([(values - values.mean()) / scale, design]))
    best = minimize(lambda at: -_fitted(data, *_shares(at))[0], _logits(START),
                    method="Nelder-Mead", options={"maxiter": 200})  # fmt: skip
    share, fading = _shares(best.x)
    _, effects, errors = _fitted(data, share, fading)
    freedom = len(values) - design.shape[1]
    return {
        arm: _row(Estimate(effects[i] * scale, errors[i] * scale, freedom), fading)
        for i, arm in enumerate(arms)
    }


def _row(effect: Estimate, fading: float) -> dict[str, float]:
    limits = (effect.mean, effect.low, effect.high)
    ratios = [inference.ratio(limit) for limit in limits]
    return dict(zip(NONE, [*ratios, fading], strict=True))


def _fitted(data: Array, share: float, fading: float) -> tuple[float, Array, Array]:
    """The restricted log-likelihood without its constant, the effects and their standard errors.

    `data` has the values in its first column and the design in the others.
    """
    moments, logarithm = _weighted(data, share, fading)
    normal, cross = moments[1:, 1:], moments[1:, 0]
    inverse = np.linalg.inv(normal)
    effects = inverse @ cross
    freedom = len(data) - len(effects)
    variance = max(float(moments[0, 0] - cross @ effects) / freedom, TINY)
    _, determinant = np.linalg.slogdet(normal)
    likelihood = -0.5 * (freedom * math.log(variance) + logarithm + float(determinant))
    return likelihood, effects, np.sqrt(variance * np.diag(inverse))


def _weighted(data: Array, share: float, fading: float) -> tuple[Array, float]:
    """data' inv(V) data, and the logarithm of V's determinant; V is the correlation of trials.

    V = share * K + (1 - share) * I. The inverse of K, the correlation of AR(1), has three
    diagonals, and so has B = share * I + (1 - share) * inv(K), with which inv(V) = inv(B) inv(K).
    """
    count, rest = len(data), 1 - fading**2
    middle = np.full(count, (1 + fading**2) / rest)
    middle[[0, -1]] = 1 / rest
    beside = -fading / rest
    taken = middle[:, None] * data
    taken[1:] += beside * data[:-1]
    taken[:-1] += beside * data[1:]
    bands = np.zeros((2, count))
    bands[0] = share + (1 - share) * middle
    bands[1, :-1] = (1 - share) * beside
    factor = cholesky_banded(bands, lower=True, check_finite=False)
    logarithm = 2 * float(np.log(factor[0]).sum()) + (count - 1) * math.log(rest)
    solved = cho_solve_banded((factor, True), taken, overwrite_b=True, check_finite=False)
    return data.T @ solved, logarithm


def _shares(at: Array) -> tuple[float, float]:
    """Two numbers between 0 and 1, of two without bounds."""
    bounded = 1 / (1 + np.exp(-np.clip(at, -7, 7)))
    return float(bounded[0]), float(bounded[1])


def _logits(start: tuple[float, float]) -> Array:
    at = np.array(start)
    return np.asarray(np.log(at / (1 - at)))
