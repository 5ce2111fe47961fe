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

# How long a playbook that was asked to end may take: it ends the trial under way, and cleans up.
GRACE_S = 120.0
LOOK_S = 0.5


@dataclass
class Ended:
    """How a playbook ended. `refused` is what it was refused for; bad input does not heal."""

    rc: int
    why: str  # '' for by itself, or why it was told to end
    refused: str = ""
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
        self._asked = 0.0  # when it was asked to end

    def run(self, number: int, end: Callable[[], str]) -> Ended:
        """Run it to its end. `end` says why it is to end before that, or ''."""
        self._end = end
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
        self._ended.rc = done.rc if done.rc is not None else 1
        return self._ended

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
        if event.get("event") == "runner_on_failed" and data.get("task_action") == "strata_plan":
            message = str((data.get("res") or {}).get("msg", ""))
            # A host that another run holds is free later; everything else was asked wrongly.
            if "held by another" not in message:
                self._ended.refused = message
        return True

    def _cancelled(self) -> bool:
        """Asked by runner again and again; True makes it kill the playbook."""
        why = self._end()
        if not why:
            return False
        if not self._asked:
            self._asked, self._ended.why = time.monotonic(), why
            for pid in self._pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGINT)
        return time.monotonic() - self._asked > GRACE_S

    def _pids(self) -> list[int]:
        """The playbook's process: runner does not tell, but its folder stands in its arguments."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == os.getpid() and str(self._folder) in (path / "cmdline").read_text():
                    found.append(int(path.name))
        return found
