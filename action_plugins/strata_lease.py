"""Controller side of `strata_lease`: waits, in words, for a run that builds on the host."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from strata import units
from strata.host import lease

LOOK_S = 2.0


class ActionModule(ActionBase):
    """Runs the module until the host is free; one that is measured is not waited for."""

    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        patience = float(self._task.args.get("patience_s", 0))
        deadline, shown = time.monotonic() + patience, ""
        while True:
            result: dict[str, Any] = self._execute_module(task_vars=task_vars)
            held = result.get("held") or {}
            if held.get("use") != lease.BUILD or time.monotonic() > deadline:
                return result
            if held["description"] != shown:
                shown = held["description"]
                where = (task_vars or {}).get("inventory_hostname", "")
                Display().display(
                    f"{where} is held by another run: {shown}; "
                    f"it is waited for, at most {units.duration(patience)}"
                )
            time.sleep(LOOK_S)
