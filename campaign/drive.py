"""All runs of a campaign, to their ends; those of one testbed one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strata import units

from analysis import shown

from . import status
from .definition import REPO, Campaign, Run
from .play import Ended, Play
from .state import FINAL, Journal

AT_END_S = 600.0
LONGEST_PAUSE_S = 3600.0


class Drive:
    """Drives a campaign. `results` is the folder of all results, `project` the checkout."""

    def __init__(
        self,
        campaign: Campaign,
        results: Path,
        project: Path = REPO,
        say: Callable[[str], None] = print,
    ) -> None:
        self._campaign, self._results, self._project, self._say = campaign, results, project, say
        self.journal = Journal(results / "campaigns" / campaign.name)
        self._stopping = threading.Event()
        self._signal = ""

    def stop(self, why: str) -> None:
        """End what runs, in good order; from a signal handler or another thread."""
        self._signal = why
        self._stopping.set()

    def run(self, again: bool = False) -> str:
        """Drive it to its end. 'done', 'failed', or 'stopped'. Raises Refused when others do.

        With `again` what has ended without being done gets another go.
        """
        with self.journal.held() as alive:
            self.journal.event("started", alive=alive)
            if again:
                self._once_more()
            threads = [
                threading.Thread(target=self._testbed, args=(place,), name=place.name)
                for place in dict.fromkeys(map(self._place, self._campaign.runs))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                # In slices: the main thread also takes the signals.
                while thread.is_alive():
                    thread.join(0.2)
                    self.journal.beat()
            states = [self.journal.state(name) for name in self._names()]
            if self._stopping.is_set():
                self.journal.event("stopped", why=self._signal)
                return "stopped"
            outcome = "done" if all(state == "done" for state in states) else "failed"
            if not self.journal.at_end_was_called():
                self.journal.event("ended", outcome=outcome)
                self._at_end()
            return outcome

    def _once_more(self) -> None:
        for name in self._names():
            if self.journal.state(name) in FINAL and self.journal.state(name) != "done":
                self._note(name, "waiting", "asked for again")

    def _place(self, run: Run) -> Path:
        """The inventory itself, however its path is written."""
        return (self._project / run.testbed).resolve()

    def _names(self) -> list[str]:
        return [self._campaign.results(number) for number in range(len(self._campaign.runs))]

    def _testbed(self, place: Path) -> None:
        for name, run in zip(self._names(), self._campaign.runs, strict=True):
            if self._place(run) == place and not self._stopping.is_set():
                if self.journal.state(name) in FINAL:
                    continue
                try:
                    self._drive(name, run)
                except Exception as error:
                    # One run never takes the others with it.
                    self._note(name, "failed", shown.broken(error))

    def _drive(self, name: str, run: Run) -> None:
        """One run, until it is done or there is no sense in going on."""
        for restart in range(run.restarts + 1):
            why = self._end(name, run)
            if why:
                self._note(name, "stopped" if self._stopping.is_set() else "out of time", why)
                return
            self._note(name, "running")
            ended = self._play(name, run)
            state = self._judge(ended)
            last = restart == run.restarts
            if state == "failed" and not last:
                pause = min(units.seconds(self._campaign.pause) * 2**restart, LONGEST_PAUSE_S)
                why = self._why(ended)
                self._note(name, "waiting", f"{why}; again in {units.duration(pause)}")
                self._stopping.wait(pause)
                if self._stopping.is_set():
                    return
                continue
            self._note(name, state, self._why(ended))
            return

    def _play(self, name: str, run: Run) -> Ended:
        folder = self.journal.folder / "runner" / name
        number = len(list((folder / "artifacts").glob("*"))) + 1
        play = Play(folder, self._project, run.testbed, self._variables(name, run))
        return play.run(number, lambda: self._end(name, run))

    def _variables(self, name: str, run: Run) -> dict[str, Any]:
        return {
            "strata_experiment": run.experiment,
            "strata_slice": run.slice,
            "strata_run": name,
            "strata_results": str(self._results),
            "strata_retry": run.retry,
            "strata_attempts": run.attempts,
            **run.variables,
        }

    def _end(self, name: str, run: Run) -> str:
        """Why a playbook is to end now, or ''."""
        if self._stopping.is_set():
            return self._signal or "asked to stop"
        if run.time_limit is not None and self.journal.spent(name) > units.seconds(run.time_limit):
            return f"its time limit of {run.time_limit}"
        limit = self._campaign.time_limit
        if limit is not None and self._age() > units.seconds(limit):
            return f"the campaign's time limit of {limit}"
        return ""

    def _age(self) -> float:
        """Seconds since the campaign was first started, pauses and crashes included."""
        begun = [float(event["at"]) for event in self.journal.events()]
        return time.time() - begun[0] if begun else 0.0

    def _judge(self, ended: Ended) -> str:
        if ended.rc == 0:
            return "done"
        if ended.why:
            return "stopped" if self._stopping.is_set() else "out of time"
        return "refused" if ended.refused else "failed"

    def _why(self, ended: Ended) -> str:
        if ended.rc == 0:
            return ""
        hosts = ", ".join(sorted(ended.unreachable))
        reached = f"not reachable: {hosts}" if hosts else ""
        other = ended.failed or f"the playbook ended with {ended.rc}"
        return ended.why or ended.refused or reached or other

    def _note(self, name: str, state: str, why: str = "") -> None:
        self._say(f"{name}: {state}{f' ({why.splitlines()[0]})' if why else ''}")
        try:
            self.journal.event("run", run=name, state=state, why=why)
        except OSError as error:
            # The disk is full, say. The runs go on: one that is not known as done is looked at
            # again by the next start, and site.yml finds nothing left to do.
            self._say(f"{name}: the journal cannot be written: {error}")

    def _at_end(self) -> None:
        """The command to be called at the end; how it ended is kept, and changes nothing."""
        if not self._campaign.at_end:
            return
        text = json.dumps(status.document(self._campaign, self._results))
        environment = {**os.environ, "STRATA_CAMPAIGN": self._campaign.name}
        try:
            done = subprocess.run(
                self._campaign.command,
                input=text,
                text=True,
                env=environment,
                cwd=self._project,
                check=False,
                timeout=AT_END_S,
            )
            self.journal.event("at_end", rc=done.returncode)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.journal.event("at_end", rc=None, why=str(error))
            self._say(f"the command at the end failed: {error}")
