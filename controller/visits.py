"""The blocks of a run as the run stage walks through them: setting, role, hosts, slots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strata import networks

from . import disturbed
from .results import Run


def of(run: Run, slots: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks of these slots of the run, in the order of the plan.

    Each is `{block, setting, role, hosts, slots, pairs, rebuild, before}`: `setting` and `role` are
    '' where the block needs no switching, `pairs` are its slots by what is compared with each
    other. `hosts` are those on which any slot of the plan needs the setting, in the order of the
    inventory: a setting is the same in each of its blocks, whatever is left to be measured in them.
    `rebuild` is that of the testbed on which it is measured, `before` what follows on building it.
    Raises Refused where no role switches to a setting.
    """
    found: dict[str, dict[str, Any]] = {}
    for slot in slots:
        if slot["block"] not in found:
            found[slot["block"]] = _visit(run, slot["block"], slot["setting"])
        found[slot["block"]]["slots"].append(slot)
    for visit in found.values():
        visit["pairs"] = disturbed.pairs(visit["slots"], run.document["baseline"])
        visit["rebuild"] = visit["slots"][0]["rebuild"]
        visit["before"] = disturbed.before(run.rule, visit["slots"])
    return list(found.values())


def settings(slots: Iterable[dict[str, Any]], addresses: dict[str, str]) -> list[dict[str, Any]]:
    """The settings of a plan, in the order of their first visits: `{setting, role, hosts}`.

    `hosts` are those on which any slot needs the setting, with their addresses, in the order of
    `addresses`. Raises Refused where no role switches to a setting.
    """
    slots = list(slots)
    return [
        {
            "setting": setting,
            "role": networks.role_of(setting),
            "hosts": {host: addresses[host] for host in _needing(slots, setting, addresses)},
        }
        for setting in dict.fromkeys(slot["setting"] for slot in slots)
        if setting
    ]


def unleft(run: Run) -> list[dict[str, Any]]:
    """The blocks whose setting may still be in place, with no slots. Raises Refused."""
    return [_visit(run, block, setting) for setting, block in run.unleft().items()]


def _visit(run: Run, block: str, setting: str) -> dict[str, Any]:
    role = networks.role_of(setting) if setting else ""
    hosts = _hosts(run, setting) if setting else []
    return {
        "block": block,
        "setting": setting,
        "role": role,
        "hosts": hosts,
        "slots": [],
        "pairs": [],
        "rebuild": 0,
        "before": {},
    }


def _hosts(run: Run, setting: str) -> list[str]:
    return _needing(run.slots(), setting, run.document["hosts"])


def _needing(slots: Iterable[dict[str, Any]], setting: str, known: Iterable[str]) -> list[str]:
    needed = {host for slot in slots if _needs(slot, setting) for host in slot["hosts"]}
    return [host for host in known if host in needed]


def _needs(slot: dict[str, Any], setting: str) -> bool:
    """Whether a slot has a trial on a network of the setting. A baseline in its block has none."""
    names = {str(trial["levels"]["network"]) for trial in slot["trials"]}
    return any(networks.get(name).setting == setting for name in names)
