"""Controller side of `strata_ledger`: what the providers of a testbed were about to make."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from strata.errors import Refused
from strata.host import lease

from controller import ledger, providers


class ActionModule(ActionBase):
    """Reads or appends; each state returns what the ledger then says."""

    _supports_check_mode = True
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset({"state", "cache", "hosts", "waited", "results"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = self._task.args
        testbed = ledger.testbed(context.CLIARGS["inventory"])
        book = ledger.Ledger(Path(given["cache"]), testbed)
        try:
            makes = _makes(task_vars or {})
            lines = [] if self._task.check_mode else _write(book, given)
            hosts = book.hosts()
            lives = [life.model_dump(mode="json") for life in book.lives()]
            _check_known(book, hosts, makes)
        except Refused as refused:
            raise AnsibleActionFail(str(refused)) from None
        # It is about the hosts and goes with them: what is made is told by what makes it.
        said = {"testbed": book.testbed, "hosts": hosts, "providers": makes, "lives": lives}
        me = lease.process(os.getppid())
        return {**result, "changed": False, "controller": me, **said, "progress": lines}


def _write(book: ledger.Ledger, given: dict[str, Any]) -> list[str]:
    """Lines for people. Raises Refused."""
    state = given.get("state", "read")
    if state == "making":
        book.making(given["hosts"], lease.process(os.getppid()))
    elif state == "made":
        return book.made(given["hosts"])
    elif state == "reached":
        return book.reached(given["waited"])
    elif state == "leaving":
        book.leaving()
    elif state == "gone":
        return book.gone(Path(given["results"]))
    return []


def _makes(task_vars: dict[str, Any]) -> dict[str, list[str]]:
    """The hosts of the testbed that each provider makes, whatever the limit. Raises Refused."""
    names = task_vars["groups"].get("testbed", [])
    return providers.of({name: task_vars["hostvars"][name] for name in names})


def _check_known(
    book: ledger.Ledger, hosts: dict[str, dict[str, Any]], makes: dict[str, list[str]]
) -> None:
    """Raises Refused where the inventory has forgotten a provider whose hosts may be there."""
    for name, entry in hosts.items():
        if entry["provider"] not in makes:
            raise Refused(
                "an inventory names the provider of its hosts until they are taken away",
                example=f"{name}: {{strata_provider: {entry['provider']}}}",
                given=f"{name} was made, as {book.path} says, and no host of the testbed has "
                f"strata_provider: {entry['provider']}",
                then="put it back, and run playbooks/teardown.yml",
            )
