"""`python -m campaign run|status|stop|install campaigns/NAME.yml`.

Exit 0: done. 1: it ended, and some run is not done. 2: refused. 70: broken, and to be started
again. 129, 130 and 143: told to stop.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strata.errors import Refused

from . import boot, status
from .definition import REPO, Campaign, load
from .drive import Drive
from .state import Journal

WATCH_S = 5.0
STOP_S = 180.0
BROKEN = 70


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("command", choices=["run", "status", "stop", "install"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--results", type=Path, default=REPO / "results")
    parser.add_argument("--again", action="store_true", help="run what has ended but is not done")
    parser.add_argument("--json", action="store_true", help="the status as JSON")
    parser.add_argument("--watch", action="store_true", help="the status again and again")
    given = parser.parse_args(arguments)
    try:
        checked = given.command in {"run", "install"}
        campaign, results = load(given.file, checked), given.results.resolve()
        if given.command == "run":
            return drive(campaign, results, given.again)
        if given.command == "stop":
            return stop(campaign, results)
        if given.command == "install":
            print("\n".join(boot.lines(campaign.name, given.file.resolve(), REPO)))
            return 0
        return show(campaign, results, given.json, given.watch)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    except Exception:
        # Python's own exit status would be 1, which tells systemd that all is over.
        traceback.print_exc()
        return BROKEN


def drive(campaign: Campaign, results: Path, again: bool = False) -> int:
    """Run it to its end, or until a signal."""
    found = Drive(campaign, results, say=lambda line: print(line, flush=True))
    told: list[int] = []

    def note(number: int, _: Any) -> None:
        told.append(number)
        found.stop(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Under nohup a closed terminal is to change nothing.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, note)
    outcome = found.run(again)
    print("\n".join(status.table(campaign, results)))
    if told:
        return 128 + told[0]
    return 0 if outcome == "done" else 1


def stop(campaign: Campaign, results: Path) -> int:
    """Tell the process that drives it to end, and wait for that."""
    journal = Journal(results / "campaigns" / campaign.name)
    process = journal.process()
    if process is None:
        print("no process drives this campaign")
        return 0
    os.kill(int(process["pid"]), signal.SIGTERM)
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
            print(json.dumps(status.document(campaign, results), indent=1))
        else:
            print("\n".join(status.table(campaign, results)))
        if not watch:
            return 0
        try:
            time.sleep(WATCH_S)
        except KeyboardInterrupt:
            return 0


if __name__ == "__main__":
    sys.exit(main())
