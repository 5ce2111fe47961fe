"""What a person sees: Ansible's own output, and a line for each trial in place of its tasks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback.default import CallbackModule as Default
from strata.errors import Refused

from analysis.shown import shown
from controller import stages

DOCUMENTATION = """
    name: strata
    type: stdout
    short_description: Ansible's default output with Strata's progress
    description:
      - Prints what a task's result holds under C(progress), one line each.
      - Texts come from hosts, experiments and workloads. Control characters in them are escaped.
      - Refuses a beginning in the middle, and says what to do about a host that cannot be reached.
      - The tasks of a slot, a few for each trial, and the checks of settings are shown only with
        C(-v), or when they fail.
    extends_documentation_fragment:
      - default_callback
      - result_format_callback
"""

QUIET_FILES = ("tasks/pair.yml", "tasks/slot.yml", "tasks/trials.yml")
QUIET_ACTION = "validate_argument_spec"
COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


class CallbackModule(Default):
    """The default callback, quieter in the loop over slots."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "strata"

    def __init__(self) -> None:
        super().__init__()
        self._painted, self._diff = False, ""
        # Warnings, errors and what workers say go there, too, past every callback.
        self._display.display = self._escaping(self._display.display)

    def _escaping(self, display: Callable[..., None]) -> Callable[..., None]:
        def say(msg: Any, *arguments: Any, **more: Any) -> None:
            painted = self._painted or msg == self._diff
            parts = COLOUR.split(str(msg)) if painted else [str(msg)]
            text = "".join(part if n % 2 else shown(part) for n, part in enumerate(parts))
            display(text, *arguments, **more)

        return say

    @contextlib.contextmanager
    def _painting(self) -> Iterator[None]:
        """What is displayed meanwhile was coloured by Ansible itself."""
        self._painted = True
        try:
            yield
        finally:
            self._painted = False

    def v2_playbook_on_stats(self, stats: Any) -> None:
        with self._painting():
            super().v2_playbook_on_stats(stats)

    def _get_diff(self, difflist: Any) -> Any:
        self._diff = super()._get_diff(_escaped(difflist))
        return self._diff

    def _quiet(self, task: Any) -> bool:
        quiet = _of_a_slot(task.get_path() or "") or task.action.endswith(QUIET_ACTION)
        return self._display.verbosity == 0 and quiet

    def v2_playbook_on_start(self, playbook: Any) -> None:
        super().v2_playbook_on_start(playbook)
        try:
            if Path(playbook._file_name).name == "site.yml":
                given = context.CLIARGS
                stages.check_begin(given.get("start_at_task"), given.get("skip_tags") or ())
        except Refused as refused:
            self._display.error(str(refused))
            raise SystemExit(1) from None

    def v2_runner_on_unreachable(self, result: Any) -> None:
        super().v2_runner_on_unreachable(result)
        host = result._host.get_name()
        self._display.display(
            f"{host} cannot be reached, for the reason above\n"
            f"next: make `ansible -i … {host} -m ping` work, and run the same command again"
        )

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if not self._quiet(task):
            super().v2_playbook_on_task_start(task, is_conditional)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if self._display.verbosity > 0 or not _of_a_slot(str(included_file._filename)):
            super().v2_playbook_on_include(included_file)

    def v2_runner_on_ok(self, result: Any) -> None:
        lines = result._result.pop("progress", [])
        if not self._quiet(result._task):
            super().v2_runner_on_ok(result)
        for line in lines:
            self._display.display(line)


def _of_a_slot(path: str) -> bool:
    return any(file in path for file in QUIET_FILES)


def _escaped(value: Any) -> Any:
    """All texts in a value."""
    if isinstance(value, dict):
        return {key: _escaped(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(part) for part in value]
    return shown(value) if isinstance(value, str) else value
