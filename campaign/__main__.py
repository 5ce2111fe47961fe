"""`python -m campaign run|status|stop|install campaigns/NAME.yml`.

Exit 0: done. 1: it ended, and some run is not done. 2: refused. 70: a fault of Strata's own, and
75: the machine would not let it (a full disk, say): both may be gone when it is started again.
129, 130 and 143: stopped by a signal. 141: nobody read the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strata.errors import Refused

from analysis import shown

from . import boot, status
from .definition import REPO, Campaign, load
from .drive import Drive
from .state import Journal

WATCH_S = 5.0
STOP_S = 180.0
REFUSED, BROKEN, MACHINE, INTERRUPTED = 2, 70, 75, 130


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("command", choices=["run", "status", "stop", "install"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--results", type=Path, default=REPO / "results")
    parser.add_argument("--again", action="store_true", help="run what has ended but is not done")
    parser.add_argument("--json", action="store_true", help="the status as JSON")
    parser.add_argument("--watch", action="store_true", help="the status again and again")
    try:
        return _done(parser.parse_args(arguments))
    except Refused as refused:
        return _said(refused, REFUSED)
    except OSError as error:
        return _said(
            Refused(
                "the campaign and its results can be read, and written to",
                example="--results /srv/results",
                given=str(error),
                then="see to rights and room, and give the same command again: it goes on",
            ),
            MACHINE,
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        # Python's own exit status would be 1, which tells systemd that all is over.
        return _said(shown.broken(error), BROKEN)


def _done(given: argparse.Namespace) -> int:
    """Do what was asked; the exit status. Raises Refused, OSError."""
    campaign = load(given.file, checked=given.command in {"run", "install"})
    results = given.results.resolve()
    if given.command == "run":
        return drive(campaign, results, given.again)
    if given.command == "stop":
        return stop(campaign, results)
    if given.command == "install":
        return shown.lines(boot.lines(campaign.name, given.file.resolve(), REPO))
    return show(campaign, results, given.json, given.watch)


def _said(what: object, status_: int) -> int:
    with contextlib.suppress(OSError):
        shown.lines([str(what)], sys.stderr)
    return status_


def _say(line: str) -> None:
    """A line of progress; the terminal that it goes to may be gone, and the campaign goes on."""
    with contextlib.suppress(OSError):
        shown.lines([line])


def drive(campaign: Campaign, results: Path, again: bool = False) -> int:
    """Run it to its end, or until a signal."""
    found = Drive(campaign, results, say=_say)
    signals: list[int] = []

    def note(number: int, _: Any) -> None:
        signals.append(number)
        found.stop(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Under nohup a closed terminal is to change nothing.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, note)
    outcome = found.run(again)
    for line in status.table(campaign, results):
        _say(line)
    if signals:
        return 128 + signals[0]
    return 0 if outcome == "done" else 1


def stop(campaign: Campaign, results: Path) -> int:
    """Tell the process that drives it to end, and wait for that."""
    journal = Journal(results / "campaigns" / campaign.name)
    process = journal.process()
    if process is None:
        print("no process drives this campaign")
        return 0
    if process["host"] != socket.gethostname():
        raise Refused(
            "a campaign is stopped on the machine that drives it",
            given=f"this is {socket.gethostname()}, and it is driven on {process['host']}",
            then=f"give the same command on {process['host']}",
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(process["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while journal.process() is not None:
        if time.monotonic() > deadline:
            print(f"process {process['pid']} has not ended yet", file=sys.stderr)
            return 1
        time.sleep(0.2)
    return 0


def show(campaign: Campaign, results: Path, as_json: bool, watch: bool) -> int:
    """Print the status, once or until interrupted."""
    while True:
        if as_json:
            lines = [json.dumps(status.document(campaign, results), indent=1)]
        else:
            lines = status.table(campaign, results)
        ended = shown.lines(lines)
        if ended or not watch:
            return ended
        try:
            time.sleep(WATCH_S)
        except KeyboardInterrupt:
            return 0


if __name__ == "__main__":
    sys.exit(main())
