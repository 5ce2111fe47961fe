"""Several pinned processes of one workload in one container: the key `together` of config.json.

Each item is a member: its own part of the configuration, CPUs of its own, its output in
OUT/member-N. One that fails ends all. SIGTERM, SIGINT and SIGABRT are passed on, the last so
that each leaves its stacks.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from workloads._options import BadInputError, nearest, refuse
from workloads._place import Place
from workloads._wire import PeerError

KEYS = ("cluster", "affinity", "cpus")
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGABRT)
CAUSE_S = 3.0  # for the member that failed of itself to show, after one that lost a peer
GRACE_S = 3.0  # between SIGTERM and SIGKILL
TICK_S = 0.02
PR_SET_PDEATHSIG = 1
SIGNAL_STATUS = 128  # and the signal's number, as shells say it


def run(name: str, config: dict[str, Any], out: Path) -> int:
    """Runs all members; 0, or the status of the one that failed first."""
    items = [_item(number, item) for number, item in enumerate(config["together"])]
    members = [_Member(number, name, item, out) for number, item in enumerate(items)]
    heard: list[int] = []
    for number in PASSED_ON:
        signal.signal(number, lambda which, _: heard.append(which))
    try:
        for member in members:
            member.start({**config, "together": None})
        failed = _first_failure(members, heard)
    finally:
        _end(members)
    if failed is None:
        return 0
    status = failed.process.returncode
    print(f"{name}: {failed.label}: {failed.reason()}", file=sys.stderr)
    return status if status > 0 else SIGNAL_STATUS - status


def end_with_parent() -> None:
    """Lets the kernel end this process when the one that holds the members is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _item(number: int, given: Any) -> dict[str, Any]:
    """One member with every key present, checked before any is started."""
    where = f"together, member {number}"
    if not isinstance(given, Mapping):
        raise BadInputError(
            f'{where}: must be an object (example: {{"cluster": null, "affinity": [0, 1], '
            f'"cpus": 2}}); given: {given!r}'
        )
    for key in given:
        if key not in KEYS:
            raise BadInputError(f"{where}: unknown key{nearest(key, KEYS)}; given: {key!r}")
    item = {"cluster": None, "affinity": None, "cpus": None, **given}
    if item["cluster"] is not None:
        Place.parse(item["cluster"])
    if item["affinity"] is not None:
        wanted, there = item["affinity"], sorted(os.sched_getaffinity(0))
        if not isinstance(wanted, list) or not wanted or any(cpu not in there for cpu in wanted):
            raise refuse("affinity", f"must be CPUs of this process, {there}", "[0, 1]", wanted)
    return item


class _Member:
    """One process: where it runs, what it said last."""

    process: subprocess.Popen[str]

    def __init__(self, number: int, name: str, item: dict[str, Any], out: Path) -> None:
        self.item, self.name, self.out = item, name, out / f"member-{number}"
        cluster = item["cluster"] or {}
        role = f" ({cluster['role']} {cluster['index']})" if cluster else ""
        self.label = f"member {number}{role}"
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)

    @property
    def started(self) -> bool:
        return self._reader.ident is not None

    def start(self, config: dict[str, Any]) -> None:
        """Its configuration goes through a pipe: it holds the key of the trial."""
        self.out.mkdir(parents=True, exist_ok=True)
        everywhere = os.sched_getaffinity(0)
        own = {"cluster": self.item["cluster"], "cpus": self.item["cpus"] or config["cpus"]}
        command = [sys.executable, "-m", "workloads", self.name, "--config", "-", "--out"]
        if self.item["affinity"] is not None:
            os.sched_setaffinity(0, self.item["affinity"])  # a child inherits it
        try:
            self.process = subprocess.Popen(
                [*command, str(self.out)],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        finally:
            os.sched_setaffinity(0, everywhere)
        self._reader.start()
        try:
            with self._pipe(self.process.stdin) as stdin:
                stdin.write(json.dumps({**config, **own}))
        except BrokenPipeError:
            pass  # it is gone already; its end says why

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None  # noqa: S101 - it was asked for
        return pipe

    def _read(self) -> None:
        """Passes its standard error on, a line at a time."""
        for line in self._pipe(self.process.stderr):
            self._said = [line.rstrip("\n")]
            sys.stderr.write(f"{self.label}: {line}")
            sys.stderr.flush()

    def reason(self) -> str:
        """Its last line, without the name that this process says as well."""
        self._reader.join(GRACE_S)
        status = self.process.returncode
        how = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        last = self._said[0].removeprefix(f"{self.name}: ") if self._said else ""
        if status > 0 and last:
            return last
        return f"{how}: {last}" if last else how


def _first_failure(members: list[_Member], heard: list[int]) -> _Member | None:
    """Waits for all, or for the failure of one; of a chain of lost peers the one that began it."""
    while True:
        while heard:
            _send(members, heard.pop(0))
        codes = [member.process.poll() for member in members]
        failed = [m for m, code in zip(members, codes, strict=True) if code]
        if failed:
            break
        if all(code == 0 for code in codes):
            return None
        time.sleep(TICK_S)
    deadline = time.monotonic() + CAUSE_S
    while time.monotonic() < deadline:
        own = [m for m in members if m.process.poll() not in (None, 0, PeerError.status)]
        if own:
            return own[0]
        if all(m.process.poll() is not None for m in members):
            break
        time.sleep(TICK_S)
    return failed[0]


def _send(members: list[_Member], number: int) -> None:
    for member in members:
        if member.started and member.process.poll() is None:
            member.process.send_signal(number)


def _end(members: list[_Member]) -> None:
    """None of them outlives this process."""
    _send(members, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    for member in members:
        if member.started:
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
