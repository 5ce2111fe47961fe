"""When a run may end before its plan does: `stop` of the experiment, looked at after each round.

What is enough stands in the experiment before the run; whether it is reached, the analysis says
from the records (`analysis/stopping`). The decision is an event of the journal, and is kept.
"""

from __future__ import annotations

from strata.cell import Cell, Levels
from strata.errors import Refused, nearest

from schema.documents import SchemaError

from . import cells as design
from . import metrics
from .experiment import Experiment
from .results import Run

EXAMPLE = "stop: {of: {runtime: docker}, within: 0.03}"


def check(experiment: Experiment, cells: list[Cell], baseline: Levels, settings: set[str]) -> None:
    """Raises Refused unless the rule names one comparison of these cells, by a metric that is
    compared. `settings` are those that the plan visits."""
    asked = experiment.stop
    if asked is None:
        return
    arms = {
        tuple((name, repr(cell.levels[name])) for name in sorted(design.compared(baseline)))
        for cell in cells
        if not design.is_baseline(cell, baseline)
        if cell.label != design.CONTROL or not design.has_control(experiment)
        if all(cell.levels.get(name) == level for name, level in asked.of.items())
    }
    if len(arms) != 1:
        raise Refused(
            "stop names one arm that is compared with the baseline",
            example=EXAMPLE,
            given=f"of: {asked.of}, which are {len(arms)} arms",
            then="name the levels that tell it from the others",
        )
    own = metrics.declared([experiment.workload], in_duets=experiment.design == "duet")
    known = [m["name"] for m in own[experiment.workload]["metrics"] if m["better"]]
    if asked.metric and asked.metric not in known:
        raise Refused(
            f"stop: {experiment.workload} has no metric {asked.metric!r} that is compared",
            example=EXAMPLE,
            given=f"metric: {asked.metric}",
            then=nearest(asked.metric, known),
        )
    if settings - {""}:
        raise Refused(
            "a run that visits settings has no `stop`: all of them are visited alike often",
            example=EXAMPLE,
            given=f"stop, and the settings {', '.join(sorted(settings - {''}))}",
            then="leave out stop, or measure the arms that need no setting by themselves",
        )


def look(run: Run) -> str:
    """Where a round has just been completed and the comparison is known well enough, note that the
    run ends here. A line for people where it was looked, or ''. Raises Refused.
    """
    if not run.document["experiment"].get("stop") or run.stopped:
        return ""
    last = _completed(run)
    if not last:
        return ""
    # Half a second to import, which runs without such a rule need not pay.
    from analysis import load, stopping  # noqa: PLC0415
    from analysis.errors import AnalysisError  # noqa: PLC0415

    try:
        found = stopping.known(load.load(run.folder))
    except (AnalysisError, SchemaError):
        return ""  # no such run has a comparison; its report says why
    assert found is not None  # noqa: S101 - there is a rule
    if not found.enough:
        return f"    after round {last}: {found.said()}"
    run.event("stopped", round=last, within=found.within, pairs=found.pairs)
    return f"    after round {last}, which is the last: {found.said()}"


def _completed(run: Run) -> int:
    """The round that has just been completed; 0 in the middle of one."""
    left = {slot["slot"] for slot in run.to_measure()}
    rounds: dict[int, list[bool]] = {}
    for slot in run.slots():
        rounds.setdefault(slot["round"], []).append(slot["slot"] not in left)
    last = max((number for number, done in rounds.items() if any(done)), default=0)
    return last if last and all(rounds[last]) else 0
