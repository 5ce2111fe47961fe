"""A campaign: one YAML, read, checked, and refused in plain words."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from strata import units
from strata.errors import Refused, nearest

from controller import experiment, results, settings, strict_yaml
from schema.documents import Reason

REPO = Path(__file__).resolve().parent.parent
# Why a trial may have failed: the causes of the records.
CAUSES: tuple[str, ...] = get_args(Reason.model_fields["cause"].annotation)
# What a campaign itself tells site.yml.
OWN = tuple(
    f"strata_{name}" for name in ("experiment", "slice", "run", "results", "retry", "attempts")
)


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Run(Closed):
    """One experiment on one testbed."""

    experiment: str
    testbed: str
    slice: str = ""
    time_limit: str | int | None = None
    retry: list[str] = []  # causes for which a failed trial is tried again
    attempts: Annotated[int, Field(ge=1)] = 2  # of each trial, in all
    restarts: Annotated[int, Field(ge=0)] = 3  # of the playbook, when it fails
    variables: dict[str, Any] = {}  # more for site.yml, as with -e


class Campaign(Closed):
    """The runs in their order; those of one testbed come one after the other."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    runs: Annotated[list[Run], Field(min_length=1)]
    time_limit: str | int | None = None
    pause: str | int = "30s"  # before a failed playbook is started again, doubled each time
    at_end: list[str] = []  # a command; it gets the status as JSON on standard input

    @property
    def command(self) -> list[str]:
        """The words of `at_end`, be they given one by one or as one line."""
        return shlex.split(self.at_end[0]) if len(self.at_end) == 1 else self.at_end

    def results(self, number: int) -> str:
        """The name of a run's results folder: the same whenever the campaign is started."""
        run = self.runs[number]
        experiment = Path(run.experiment).stem
        return "-".join(filter(None, [self.name, f"{number + 1:02d}", experiment, run.slice]))


def load(path: Path, checked: bool = True) -> Campaign:
    """Read and check a campaign file. Raises Refused.

    Unchecked is enough to look at a campaign or stop it, whatever became of its experiments.
    """
    given = strict_yaml.read(path, "campaign")
    try:
        found = Campaign.model_validate(given)
    except ValidationError as error:
        raise _refusal(error, path.name) from error
    if checked:
        _check(found)
    return found


def _check(found: Campaign) -> None:
    """What the shape alone cannot say."""
    for number, run in enumerate(found.runs):
        _check_run(run)
        results.check_name(found.results(number))
    for limit in (found.time_limit, found.pause):
        if limit is not None:
            units.seconds(limit)
    if found.at_end and (not found.command or shutil.which(found.command[0]) is None):
        raise Refused(
            "at_end begins with a program of this machine",
            example="at_end: [mail, -s, done, me@example.org]",
            given=f"at_end: {found.at_end}",
            then="install it, or give its whole path",
        )


def _refusal(error: ValidationError, where: str) -> Refused:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        model: type[BaseModel] = Run if first["loc"][0] == "runs" else Campaign
        then = nearest(str(first["loc"][-1]), list(model.model_fields))
        return Refused(f"{where}: unknown name {first['loc'][-1]!r}", given=place, then=then)
    return Refused(
        f"{where}: {place}: {first['msg']}",
        example="runs: [{experiment: quick, testbed: inventories/local}]",
        given=repr(first.get("input"))[:200],
    )


def _check_run(run: Run) -> None:
    if not _is_there(REPO / run.testbed):
        known = sorted(str(p.relative_to(REPO)) for p in (REPO / "inventories").iterdir())
        raise Refused(
            "a testbed is an inventory",
            example="testbed: inventories/lab",
            given=f"testbed: {run.testbed[:200]}",
            then=nearest(run.testbed, known),
        )
    experiment.load(experiment_file(run.experiment), run.slice)
    settings.check(run.variables)
    for name in run.variables:
        if name in OWN:
            raise Refused(
                f"{name} is not among a run's variables: the campaign sets it",
                example="variables: {strata_dataset: /data/flowers}",
                given=f"variables: {run.variables}",
                then="use experiment, slice, retry and attempts",
            )
    for cause in run.retry:
        if cause not in CAUSES:
            raise Refused(
                f"unknown cause {cause!r}",
                example="retry: [host_lost, runtime_lost]",
                given=f"retry: {run.retry}",
                then=nearest(cause, list(CAUSES)),
            )
    if run.time_limit is not None:
        units.seconds(run.time_limit)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no file can be called so, or nobody may look
        return False


def experiment_file(name: str) -> Path:
    """The file of an experiment, as site.yml finds it: by name or by path."""
    if name.endswith((".yml", ".yaml")):
        return REPO / name
    return REPO / "experiments" / f"{name}.yml"


State = Literal["waiting", "running", "done", "failed", "refused", "stopped", "out of time"]
