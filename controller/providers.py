"""Which provider makes which hosts of a testbed. A host without one exists already.

A provider is a role with the entry points of `ENTRIES`; what each is given and answers stands in
docs/design.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strata.errors import Refused, nearest

from .levels import SUBSTRATES
from .plan import Plan
from .settings import ROLES

ENTRIES = ("offer", "present", "absent", "prove")


def known(roles: Path = ROLES) -> list[str]:
    """The names of all providers."""
    found = roles.glob(f"*/tasks/{ENTRIES[0]}.yml")
    return sorted(
        path.parents[1].name
        for path in found
        if all(path.with_stem(entry).exists() for entry in ENTRIES)
    )


def of(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The hosts that each provider makes, in the order given; `hosts` are variables by name.

    Raises Refused where there is no such provider, and where a host that is to be made does not
    say what it will be: its plan would not be known before it is there.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for name, variables in hosts.items():
        provider = variables.get("strata_provider")
        if provider is not None:
            _check(name, provider, variables["group_names"])
            found[provider].append(name)
    return dict(found)


def _check(host: str, provider: Any, groups: list[str]) -> None:
    if provider not in known():
        raise Refused(
            f"{host}: strata_provider names what makes the host; hosts that exist have none",
            example=f"strata_provider: {known()[0]}",
            given=f"strata_provider: {provider!r}"[:200],
            then=nearest(str(provider), known()),
        )
    if not set(groups) & set(SUBSTRATES):
        raise Refused(
            "a host that a provider makes is in the group of its substrate: nobody can look yet",
            example=f"bare_metal: {{hosts: {{{host}: }}}}",
            given=f"{host}, in the groups {', '.join(groups)}",
            then=f"put it into one of {', '.join(SUBSTRATES)}",
        )


def check_same(paper: Plan, looked: Plan, hosts: list[str]) -> None:
    """Raises Refused where the plan changes once the `hosts` that were made have been looked at."""
    if paper.identity != looked.identity:
        raise Refused(
            "hosts that a provider makes give the plan that was made before they were there",
            given=f"before: {_said(paper)}\n       now: {_said(looked)}",
            then=f"change what is asked for, or what is made: {', '.join(hosts)}; "
            "playbooks/teardown.yml takes these away",
        )


def _said(plan: Plan) -> str:
    cells = {trial.cell for slot in plan.slots for trial in slot.trials}
    hosts = sorted({host for slot in plan.slots for host in slot.hosts})
    left_out = "".join(f"; left out {item['what']}: {item['why']}" for item in plan.left_out)
    return f"{len(plan.slots)} slots, {len(cells)} cells, on {', '.join(hosts)}{left_out}"
