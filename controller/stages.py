"""The stages of site.yml: which of them a command asks for, and what they stand on."""

from __future__ import annotations

from collections.abc import Collection

from strata.errors import Refused, nearest

# site.yml has the same in its tags: a stage brings along those that it stands on.
STANDS_ON: dict[str, tuple[str, ...]] = {
    "provision": (),
    "deploy": ("provision",),
    "run": ("provision", "deploy"),
    "collect": (),
    "report": (),
}
# What Ansible itself knows as tags.
ANSIBLES = ("all", "always", "tagged", "untagged", "never")


def asked(tags: Collection[str], skipped: Collection[str]) -> list[str]:
    """The stages that come, in order. Raises Refused where that is no sound command."""
    for tag in [*tags, *skipped]:
        if tag not in (*STANDS_ON, *ANSIBLES):
            raise Refused(
                "a tag is a stage of site.yml",
                example="--tags deploy",
                given=tag,
                then=nearest(tag, list(STANDS_ON)),
            )
    needed = {stage for stages in STANDS_ON.values() for stage in stages} | {"run"}
    if needed & set(skipped):
        raise Refused(
            "what a stage stands on is not skipped: it takes seconds where nothing is to be done",
            example="--tags deploy: all that comes before run; --tags run: all but the report",
            given=f"--skip-tags {','.join(sorted(skipped))}",
            then="name the last stage that is to come with --tags",
        )
    everything = bool({"all", "tagged"} & set(tags))
    named = {stage for stage in STANDS_ON if everything or stage in tags}
    brought = {stage for name in named for stage in STANDS_ON[name]}
    return [stage for stage in STANDS_ON if stage in (named | brought) - set(skipped)]


def check_begin(start: str | None, skipped: Collection[str]) -> None:
    """Raises Refused where the checks would be passed over; `start` is --start-at-task."""
    given = [f"--start-at-task '{start}'"] if start else []
    given += ["--skip-tags always"] if "always" in skipped else []
    if given:
        raise Refused(
            "every command begins at its beginning, which checks, plans and takes the leases",
            example="--tags run",
            given=" ".join(given),
            then="leave it out: what is done already takes seconds, and a run is resumed",
        )
