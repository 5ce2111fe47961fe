"""Controller side of `strata_settings`: refuse variables of Strata's that it does not know."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from strata.errors import Refused

from controller import settings


class ActionModule(ActionBase):
    """Touches no host and writes nothing. Asked first of all, when all variables are a user's."""

    _supports_check_mode = True
    TRANSFERS_FILES = False
    _VALID_ARGS: frozenset[str] = frozenset()

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        hosts = variables["groups"]["all"]
        names = set(variables).union(*(set(variables["hostvars"][host]) for host in hosts))
        try:
            settings.check(names)
        except Refused as refused:
            raise AnsibleActionFail(str(refused)) from None
        return {**result, "changed": False}
