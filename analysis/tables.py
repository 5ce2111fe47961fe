"""All frames of a report, made once from a loaded run, for the page, the files, the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import pandas as pd

from . import disturbed, equality, lives, matching, stats, steadiness, stopping
from . import load as loading
from .load import Loaded
from .metrics import Metric

# The first step builds the graph; this says how much dearer it is than a later one. Neither
# direction is better: slower later steps make it smaller.
FIRST_OVER_LATER = Metric("first_over_later", "First step / median step", "1")


@dataclass(frozen=True)
class Tables:
    """The frames of a report.

    trials: a row a trial of `matching.assign`. summary, comparisons, overall: see `stats`; the
    last two name their `confounds`, which are listed by `equality.confounds`.
    counts: case, arm, short, cell, ok, failed, void. flags: trial, name, detail, arm, short,
    case. lost: failed and void trials with their reasons. struck: how often the rule on disturbed
    trials struck each arm, see `disturbed`; without_rule: as `overall`, were there no such rule,
    and empty where it struck nobody. unjudged: how many trials have too few
    measured steps to tell whether they were steady. steps, usage: see `load`. unread: the files of
    which they lack the rows, and why. lives: see `lives.frame`. ended: how the run ended, where it
    had a rule for that.
    """

    loaded: Loaded
    trials: pd.DataFrame
    summary: pd.DataFrame
    comparisons: pd.DataFrame
    confounds: pd.DataFrame
    overall: pd.DataFrame
    counts: pd.DataFrame
    flags: pd.DataFrame
    lost: pd.DataFrame
    struck: pd.DataFrame
    without_rule: pd.DataFrame
    unjudged: int
    steps: pd.DataFrame
    usage: pd.DataFrame
    unread: list[str]
    lives: pd.DataFrame
    ended: str = ""

    def notices(self) -> list[str]:
        """What a reader must know of the completeness of the run and of this report."""
        found = self.loaded.notices()
        lost, planned = stats.dropped(self.trials)
        if lost and not self.comparisons.empty:
            found.append(
                f"{lost} of {planned} pairs dropped: a trial of each failed, is void or missing."
            )
        found += [self.ended] if self.ended else []
        found += [f"Confounded: {equality.told(row)}." for row in records(self.confounds)]
        return found + [f"Left out of the figures: {each}" for each in self.unread]

    def flag_counts(self) -> str:
        """How many trials bear each flag, the commonest first: `steal 8, swap 1`."""
        found = self.flags.groupby("name")["trial"].nunique().sort_index()
        found = found.sort_values(ascending=False, kind="stable")
        return ", ".join(f"{name} {count}" for name, count in found.items())

    def metric(self, name: str) -> Metric:
        """What is known of a metric of the summary."""
        return FIRST_OVER_LATER if name == FIRST_OVER_LATER.name else self.loaded.metrics.get(name)

    @property
    def usable(self) -> pd.DataFrame:
        return loading.usable(self.trials)

    @property
    def order(self) -> list[str]:
        """Arms in the order of every table and figure."""
        return matching.order(self.trials[self.trials["role"] == "measured"])


def build(loaded: Loaded, *, judge_steps: bool = True) -> Tables:
    """Analyse a run; without a usable trial its tables are empty.

    Raises UnequalDigests where inputs differ.

    Without `judge_steps` steps and usage are not read, and `flags` holds only what the records say.
    """
    trials = derived(matching.assign(loaded))
    known = [metric for metric in loaded.metrics if metric.name in trials]
    names = [metric.name for metric in known]
    if FIRST_OVER_LATER.name in trials:
        names.append(FIRST_OVER_LATER.name)
    # Without a baseline nothing is compared; with one that has no good trial, that is a verdict.
    sided = trials if trials["is_baseline"].any() else trials.iloc[:0]
    steps, no_steps = loading.steps(loaded) if judge_steps else (pd.DataFrame(), [])
    usage, no_usage = loading.usage(loaded) if judge_steps else (pd.DataFrame(), [])
    judged = steadiness.judge(steps, dict(zip(trials["trial"], trials["cell"], strict=True)))
    # Whoever may have ended a run for what it looked like has intervals that bear that.
    anytime = bool(stopping.rule(loaded.run))
    comparisons = stats.compare(sided, known, anytime=anytime)
    overall = stats.overall(sided, known, comparisons, anytime=anytime)
    confounds = equality.confounds(loaded, sided, known)
    by_cell = _named(comparisons, confounds, "cell")
    by_arm = _named(overall, confounds, "arm")
    names_of = trials[["trial", "arm", "short", "case"]]
    return Tables(
        loaded=loaded,
        trials=trials,
        summary=stats.summarise(trials, names),
        comparisons=comparisons.assign(confounds=by_cell) if len(comparisons) else comparisons,
        confounds=confounds,
        overall=overall.assign(confounds=by_arm) if len(overall) else overall,
        counts=counts(trials),
        flags=pd.concat(
            [flags(loaded.flags, judged), steadiness.contradictions(steps, loading.usable(trials))],
            ignore_index=True,
        ).merge(names_of, on="trial"),
        lost=trials[trials["status"] != "ok"],
        struck=disturbed.struck(loaded.attempts, trials),
        without_rule=_without_rule(loaded, known, anytime=anytime),
        unjudged=int((~judged["judged"].astype(bool)).sum()),
        steps=steps,
        usage=usage,
        unread=no_steps + no_usage,
        lives=lives.frame(loaded),
        ended=stopping.notice(loaded),
    )


def _without_rule(loaded: Loaded, known: list[Metric], *, anytime: bool) -> pd.DataFrame:
    """The answer over all cases as it would be if no trial had been void for being disturbed."""
    if not (loaded.attempts["cause"] == disturbed.CAUSE).any():
        return pd.DataFrame()
    first = disturbed.without_rule(loaded.attempts)
    trials = matching.assign(replace(loaded, trials=first))
    if not trials["is_baseline"].any():
        return pd.DataFrame()
    single = stats.compare(trials, known, anytime=anytime)
    return stats.overall(trials, known, single, model=False, anytime=anytime)


def _named(rows: pd.DataFrame, confounds: pd.DataFrame, by: str) -> list[str]:
    """What each row of comparisons is confounded by, in one text."""
    found = {key: ", ".join(dict.fromkeys(group)) for key, group in confounds.groupby(by)["what"]}
    return [found.get(key, "") for key in rows[by]] if len(rows) else []


def derived(trials: pd.DataFrame) -> pd.DataFrame:
    """Add `first_over_later`, the first step over the median of the measured ones."""
    if {"first_step", "step_median"} <= set(trials.columns):
        return trials.assign(first_over_later=trials["first_step"] / trials["step_median"])
    return trials


def flags(recorded: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """The flags of the records, and those that their steps raise: trial, name, detail."""
    known = set(recorded.loc[recorded["name"] == "not_steady", "trial"])
    found = steadiness.flags(judged)
    more = found[~(found["trial"].isin(known) & (found["name"] != "outliers"))]
    return pd.concat([recorded, more], ignore_index=True) if len(more) else recorded


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A dict a row, by column name."""
    return cast(list[dict[str, Any]], frame.to_dict("records"))


def counts(trials: pd.DataFrame) -> pd.DataFrame:
    """How the measured trials of each cell ended: case, arm, short, cell, ok, failed, void."""
    measured = trials[trials["role"] == "measured"]
    keys = ["case", "arm", "short", "cell"]
    found = measured.groupby([*keys, "status"]).size().unstack(fill_value=0)
    for status in ("ok", "failed", "void"):
        if status not in found:
            found[status] = 0
    return found.reset_index()[[*keys, "ok", "failed", "void"]]


def overhead(loaded: Loaded) -> str:
    """`measured / wall: 312 s of 360 s (87 %), 1.2 s a trial outside of trials`, or nothing.

    From the last `closed` event of the journal; a run that is not closed has none.
    """
    for event in reversed(loaded.journal):
        found = event.model_dump()
        if found.get("event") == "closed":
            wall, measured = _number(found, "wall_s"), _number(found, "measured_s")
            if not wall > 0:
                return ""
            outside = (wall - measured) / max(len(loaded.trials), 1)
            return (
                f"measured / wall: {measured:.0f} s of {wall:.0f} s ({measured / wall:.0%}), "
                f"{outside:.1f} s a trial outside of trials"
            ).replace("%", " %")
    return ""


def _number(event: dict[str, object], key: str) -> float:
    value = event.get(key)
    return float(value) if isinstance(value, int | float) else math.nan
