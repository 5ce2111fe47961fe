"""What the modules about a run's folder have in common: they work here, and on no host."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from strata.errors import Refused

from analysis.errors import AnalysisError
from schema.documents import SchemaError

FOLDER = {"type": "path", "required": True}
STRINGS = {"type": "list", "elements": "str", "default": []}


class RunAction(ActionBase):
    """Typed arguments, a call, one kind of error."""

    _supports_check_mode = True
    TRANSFERS_FILES = False
    # As AnsibleModule takes them; the module's documentation says the same.
    ARGUMENTS: ClassVar[dict[str, dict[str, Any]]]
    # The result in check mode, where nothing is read or written: there may be no folder yet. None
    # where there must be one, and all that is done then is to read.
    IN_CHECK_MODE: ClassVar[dict[str, Any] | None] = {"changed": True}

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(self.ARGUMENTS)
        if self._task.check_mode and self.IN_CHECK_MODE is not None:
            return {**result, **self.IN_CHECK_MODE}
        try:
            return {**result, **self.act(Path(given["folder"]), given)}
        except (Refused, AnalysisError, SchemaError) as refused:
            raise AnsibleActionFail(str(refused)) from None
        except OSError as error:
            raise AnsibleActionFail(
                f"the results folder cannot be written\ngiven: {error}\n"
                "next: make room for it, and run the same command again: what has a record is kept"
            ) from error

    @abstractmethod
    def act(self, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        """Do it for the run in `folder`; the task's result. Raises Refused, OSError."""
