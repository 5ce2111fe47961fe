"""What else the hosts did: how often the rule struck each arm, and the answer without the rule.

The rule of the experiment voids trials by causes, never by what came of them, and is the same for
all arms. Whether it fell on them alike is seen here, and so is what it changes: beside the answer
stands the one of the first attempt of every trial, as if there had been no rule.
"""

from __future__ import annotations

import pandas as pd

from .load import usable

CAUSE = "disturbed"
# Who used the CPUs beside the trial, by metric; in CPUs, on average over the trial.
USERS = {"others": "cpu_others", "platform": "cpu_platform", "strata": "cpu_strata"}
STRUCK = ["arm", "short", "attempts", "void", "share", *USERS]


def without_rule(attempts: pd.DataFrame) -> pd.DataFrame:
    """The trials as they would be without the rule: of each the first attempt that did not fail.

    `attempts` has a row an attempt, with the columns of `trials`. One that is void since it was
    disturbed counts as good.
    """
    void = (attempts["status"] == "void") & (attempts["cause"] == CAUSE)
    kept = attempts.assign(status=attempts["status"].mask(void, "ok"))
    kept = kept.assign(bad=kept["status"] != "ok").sort_values(["bad", "attempt"], kind="stable")
    return kept.drop_duplicates("trial").drop(columns="bad").sort_index().reset_index(drop=True)


def struck(attempts: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """A row an arm: its measured attempts, how many of them the rule voided and which share that
    is, and how many CPUs others, the platform and Strata used beside its usable trials (mean).

    `trials` are those of `matching.assign`.
    """
    names = trials[["trial", "arm", "short"]]
    measured = attempts[attempts["role"] == "measured"].merge(names, on="trial")
    used = usable(trials)
    rows = []
    for (arm, short), group in measured.groupby(["arm", "short"], sort=False):
        void = int((group["cause"] == CAUSE).sum())
        own = used[used["arm"] == arm]
        rows.append(
            {
                **{"arm": arm, "short": short, "attempts": len(group)},
                **{"void": void, "share": void / len(group)},
                **{
                    name: (own[metric] / own["duration_s"]).mean()
                    for name, metric in USERS.items()
                    if metric in own
                },
            }
        )
    return pd.DataFrame(rows, columns=STRUCK)
