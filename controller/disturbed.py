"""What becomes of a trial that something else disturbed: it is void, and its pair is run again.

The rule is the experiment's (`disturbed`) and stands before the run. It looks at causes only, the
shares that the hosts have measured (`trial/disturbance`), never at what came of the trial, and is
the same for every arm. The arms of a case in one round are run again together, so that what is
compared was measured at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strata import networks, units
from strata.cell import Levels
from strata.trial.disturbance import DOUBTS, SAID

from . import cells

CAUSE = "disturbed"
Slot = dict[str, Any]
# Of a trial: each of its attempts, from 1, and why it was lost; '' where it was not.
Attempts = Mapping[int, str]


def judge(record: dict[str, Any], rule: dict[str, Any]) -> None:
    """Void a measured trial in which a cause took a larger share than the rule allows.

    `rule` is the experiment's, by name of a cause; what is null there decides nothing. A trial
    that has failed keeps its reason.
    """
    if record["role"] != "measured" or record["status"] != "ok":
        return
    found = record.get("disturbance") or {}
    over = {
        cause: (found[cause], most)
        for cause in SAID
        if (most := rule.get(cause)) is not None and found.get(cause, 0.0) > most
    }
    if over:
        said = [f"{s:.1%} {SAID[c]} (allowed: {most:.1%})" for c, (s, most) in over.items()]
        record["status"] = "void"
        record["reason"] = {"cause": CAUSE, "message": "; ".join(said)}


def pairs(slots: Iterable[Slot], baseline: Levels) -> list[list[Slot]]:
    """The slots by the case and the round that they are arms of, in their order.

    Slots of before rounds were planned stand for themselves, and so do duets: they hold both arms.
    """
    found: dict[tuple[Any, ...], list[Slot]] = {}
    for slot in slots:
        case = cells.case_of(slot["trials"][0]["levels"], baseline)
        alone = not slot["round"] or len(measured(slot)) > 1
        where = (slot["slot"],) if alone else (slot["block"], slot["round"], case)
        found.setdefault(where, []).append(slot)
    return list(found.values())


def due(
    pair: Sequence[Slot], attempts: Mapping[str, Attempts], again: int
) -> tuple[int, list[Slot]]:
    """Which slots of a pair are to be run again, at once, and which attempt that is; or none.

    An attempt of the pair in which any trial was disturbed is followed by another of all of its
    trials, `again` times at most. `attempts` are those of each measured trial. Of an attempt that
    a kill has cut short the rest is due.
    """
    ended = [[attempts.get(trial, {}) for trial in measured(slot)] for slot in pair]
    if all(map(all, ended)):
        for number in range(1, again + 1):
            if any(each.get(number) == CAUSE for own in ended for each in own):
                last = [min(map(max, own)) for own in ended]
                left = [s for s, attempt in zip(pair, last, strict=True) if attempt <= number]
                if left:
                    return number + 1, left
    return 0, []


def measured(slot: Slot) -> list[str]:
    """The trials of a slot that are measured: one, or both of a duet."""
    return [str(t["trial"]) for t in slot["trials"] if t["role"] == "measured"]


def before(rule: dict[str, Any], slots: Sequence[Slot]) -> dict[str, Any]:
    """What comes before the first of `slots`: `{share, patience_s, slots}`.

    The hosts come to rest, and each of them runs a slot that is not measured: the first that needs
    no setting, since none is in place yet.
    """
    covered: set[str] = set()
    chosen = []
    for slot in slots if rule.get("warm_up") else []:
        if not covered.issuperset(slot["hosts"]) and not any(map(_needs_setting, slot["trials"])):
            chosen.append(slot)
            covered |= set(slot["hosts"])
    share = rule.get("others")
    return {
        "share": DOUBTS["others"] if share is None else share,
        "patience_s": units.seconds(rule["rest"]) if rule else 0.0,
        "slots": chosen,
    }


def _needs_setting(trial: dict[str, Any]) -> bool:
    return bool(networks.get(str(trial["levels"]["network"])).setting)
