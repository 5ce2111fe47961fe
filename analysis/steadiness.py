"""Is the measured window of a trial steady? A doubt is flagged; nothing is cut."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Fewer measured steps than three thirds of this are not judged.
FEWEST_IN_THIRD = 5
# A window drifts when its ends differ by both: so much of the step, and so many standard errors.
SHARE = 0.05
ERRORS = 4.0
# Standard error of a median over that of a mean (normal), and of the MAD to a standard deviation.
MEDIAN_TO_MEAN, MAD_TO_SD = 1.2533, 1.4826


def drift(durations: NDArray[np.float64]) -> tuple[float, float]:
    """How the last third of a window differs from the first: as a share, in standard errors.

    Medians and median absolute deviations, so that single slow steps do not decide.
    """
    third = len(durations) // 3
    first, last = durations[:third], durations[-third:]
    before, after = float(np.median(first)), float(np.median(last))
    spread = np.hypot(_mad(first), _mad(last)) * MAD_TO_SD * MEDIAN_TO_MEAN / np.sqrt(third)
    change = after - before
    return change / before, abs(change) / max(float(spread), 1e-12 * before)


def _mad(values: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(values - np.median(values))))


def judge(steps: pd.DataFrame) -> pd.DataFrame:
    """A row a trial with measured steps: trial, judged, drift (share), steady.

    What is judged is the time for an item, of the slowest worker of a step: some workloads do as
    much in every step, others work for as long. A step in which nothing was done counts as one
    item.
    """
    if steps.empty:
        return pd.DataFrame(columns=["trial", "judged", "drift", "steady"])
    measured = steps[steps["phase"] == "measured"]
    each = measured["duration_s"] / measured["items"].clip(lower=1)
    slowest = each.groupby([measured["trial"], measured["step"]], sort=True).max()
    rows = []
    for trial, series in slowest.groupby(level="trial", sort=False):
        judged = len(series) >= 3 * FEWEST_IN_THIRD
        share, errors = drift(series.to_numpy(dtype=np.float64)) if judged else (0.0, 0.0)
        steady = abs(share) <= SHARE or errors <= ERRORS
        rows.append({"trial": trial, "judged": judged, "drift": share, "steady": steady})
    return pd.DataFrame(rows, columns=["trial", "judged", "drift", "steady"])


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
    """The trials that are not steady, as flags: trial, name, detail."""
    doubtful = judged[~judged["steady"].astype(bool)]
    return pd.DataFrame(
        {
            "trial": doubtful["trial"],
            "name": "not_steady",
            "detail": [
                f"the last third of the measured steps is {abs(share):.0%} "
                f"{'slower' if share > 0 else 'faster'} than the first"
                for share in doubtful["drift"]
            ],
        }
    )
