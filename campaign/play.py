"""One site.yml through ansible-runner, as a person would start it, with an end in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_runner import interface
from ansible_runner.exceptions import AnsibleRunnerException

# How long a playbook that was asked to end may take: it ends the trial under way, and cleans up.
GRACE_S = 120.0
LOOK_S = 0.5
LOOK = 0  # the signal that only asks whether there is a process
MESSAGE = 400  # characters of what failed that are kept in the journal


@dataclass
class Ended:
    """How a playbook ended. `refused` is what it was refused for; bad input does not heal."""

    rc: int
    why: str  # '' for by itself, or why it was told to end
    refused: str = ""
    failed: str = ""  # what failed first, and where
    unreachable: set[str] = field(default_factory=set)


class Play:
    """`site.yml` on an inventory; artefacts stay in `folder`, a folder an attempt."""

    def __init__(
        self,
        folder: Path,
        project: Path,
        inventory: str,
        variables: dict[str, Any],
        playbook: str = "site.yml",
    ) -> None:
        self._folder, self._project, self._playbook = folder, project, playbook
        self._inventory, self._variables = inventory, variables
        self._ended = Ended(1, "")
        self._asked = 0.0  # when it was to end
        self._asked = False  # whether it has been asked

    def run(self, number: int, end: Callable[[], str]) -> Ended:
        """Run it to its end. `end` says why it is to end before that, or ''."""
        self._end = end
        self._end_leftovers()
        self._ended.why = end()
        if not self._ended.why:
            try:
                self._ended.rc = self._start(number)
            except (OSError, AnsibleRunnerException) as error:
                self._ended.failed = f"ansible-runner: {error}"
        return self._ended

    def _start(self, number: int) -> int:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        done = interface.run(
            private_data_dir=str(self._folder),
            project_dir=str(self._project),
            ident=f"{number:03d}",
            playbook=self._playbook,
            inventory=str(self._project / self._inventory),
            extravars=self._variables,
            envvars=self._environment(),
            settings={"pexpect_timeout": LOOK_S},
            quiet=True,
            event_handler=self._see,
            cancel_callback=self._cancelled,
        )
        return done.rc if done.rc is not None else 1

    def _environment(self) -> dict[str, str]:
        """This checkout's Ansible, its configuration, and its progress lines in the artefacts."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "ANSIBLE_CONFIG": str(self._project / "ansible.cfg"),
            "ANSIBLE_STDOUT_CALLBACK": "strata",
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
        }

    def _see(self, event: dict[str, Any]) -> bool:
        """Note refusals and hosts that do not answer; whether runner is to keep the event."""
        data = event.get("event_data") or {}
        if event.get("event") == "runner_on_unreachable":
            self._ended.unreachable.add(str(data.get("host")))
        if event.get("event") == "runner_on_failed" and not data.get("ignore_errors"):
            message = str((data.get("res") or {}).get("msg", ""))
            said = f"{data.get('host')}: {data.get('task')}: {message[:MESSAGE]}"
            self._ended.failed = self._ended.failed or said
            # A host that another run holds is free later; everything else was asked wrongly.
            if data.get("task_action") == "strata_plan" and "held by another" not in message:
                self._ended.refused = message
        return True

    def _cancelled(self) -> bool:
        """Asked by runner again and again; True makes it kill the playbook."""
        why = self._end()
        if not why:
            return False
        if not self._asked:
            self._asked, self._ended.why = time.monotonic(), why
        # Once, since a second one would interrupt its cleaning up.
        self._asked = self._asked or self._signal(signal.SIGINT)
        return time.monotonic() - self._asked > GRACE_S

    def _end_leftovers(self) -> None:
        """End what a campaign that was killed left: its playbook lives until its task ends."""
        begun = time.monotonic()
        left = self._signal(signal.SIGINT)
        while left:
            time.sleep(LOOK_S)
            late = time.monotonic() - begun > GRACE_S
            left = self._signal(signal.SIGKILL if late else LOOK)

    def _signal(self, number: int) -> bool:
        """Send a signal to the playbook; whether there is one."""
        pids = self._pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(pids)

    def _pids(self) -> list[int]:
        """The playbook's process: runner does not tell, but its variables stand in its arguments.

        Ansible's workers have the same arguments; their parent is the playbook.
        """
        ours, found = f"@{self._folder}/env/extravars", {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z" and ours in (path / "cmdline").read_text().split("\0"):
                    found[int(path.name)] = int(fields[1])
        return [pid for pid, parent in found.items() if parent not in found]
