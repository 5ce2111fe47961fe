"""One program of a trial on this host: its folder, its runtime, how it ended, what it left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import members, storage, units
from ..cell import Cell, Resources
from ..host import cpus
from ..host.counters import Counters
from ..members import Member
from ..runtimes import base
from ..runtimes.base import Ended, Runtime, RuntimeLostError, Spec, StartError
from . import record
from .order import Order

TICK = 0.1  # seconds between looks at a program
# What a workload's exit status says beside failure: its peers were gone, it is not to blame.
PEER_LOST = 75  # EX_TEMPFAIL of sysexits.h
ILLEGAL = (
    ": its image is built for instructions that the CPU has not, or does not show to its guests "
    "(cpu.flags in the fingerprint; of Nova's cpu_mode)"
)

FULL = 2**20  # bytes; a disk with less free is full

Reason = tuple[str, str]


class Program:
    """From its folder to its outcomes, one for each member that it holds."""

    def __init__(
        self, order: Order, trial: dict[str, Any], here: list[Member], account: int
    ) -> None:
        self.trial, self.here, self.account = trial, here, account
        self.cell = _given(trial)
        self.name = members.name(trial, here[0])
        self.spool = order.state_dir / "trials" / self.name
        self.reason: Reason | None = None
        self.ended: Ended | None = None
        self._order = order
        self._runtime: Runtime | None = None
        self._clock = {"launched": 0.0, "finished": 0.0}
        self._started = ""
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._over = threading.Event()

    @property
    def _image(self) -> dict[str, str]:
        """That of its workload's family. Raises LookupError where this host was not given it."""
        return self._order.images[self.trial["family"]]

    @property
    def _storage(self) -> str:
        """Where its scratch space is."""
        return str(self.cell.options.get(storage.OPTION, storage.DISK))

    @property
    def measured(self) -> bool:
        return bool(self.trial["role"] == "measured")

    def prepare(self, make: Any) -> None:
        """Make its folder and all that need not be in the measured time. Raises StartError."""
        with _said("the folder of the trial"):
            spec = self._spec()
            self._write_config(spec)
        self._runtime = make(self.cell.platform.runtime, spec)
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._clock = dict.fromkeys(self._clock, time.monotonic())
        with _said("what it needs"):
            self._runtime.prepare()

    def launch(self) -> None:
        """Start it. Raises StartError."""
        assert self._runtime  # noqa: S101 - prepare came first
        self._clock = dict.fromkeys(self._clock, time.monotonic())
        with _said("its program"):
            self._runtime.launch()
        self._follower.start()

    def _follow(self) -> None:
        """Waits for the end, so that it is seen at once whatever else is looked at."""
        assert self._runtime  # noqa: S101 - launch came first
        while not self._over.is_set():
            try:
                self.ended = self._runtime.wait(TICK)
            except RuntimeLostError as error:
                self.fail(error.cause, str(error))
                self._over.set()
            if self.ended is not None:
                self._over.set()

    @property
    def over(self) -> bool:
        """Whether it has ended, or was lost."""
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether it is over within that time."""
        return self._over.wait(seconds)

    def fail(self, cause: str, message: str) -> None:
        """Note why it failed; the first reason stays."""
        self.reason = self.reason or (cause, message)

    def signal(self, number: int) -> None:
        if self._runtime:
            self._runtime.signal(number)

    def has_measured(self) -> bool:
        """Whether some step of its measured phase is in its log already."""
        log = self.spool / "out" / "steps.jsonl"
        try:
            return b'"phase": "measured"' in log.read_bytes()
        except OSError:
            return False

    def outcomes(self) -> list[dict[str, Any]]:
        """What each of its members did: `{record, steps, trace, usage, stdout, stderr}`.

        The first member's holds what is the program's: logs, CPU time, memory. `usage`, which is
        the trial's on this host, is left empty.
        """
        self._over.set()
        if self._follower.ident is not None:
            self._follower.join()
        self._clock["finished"] = max(self._end(), self._clock["launched"])
        stdout, stderr = self._runtime.logs() if self._runtime else ("", "")
        shared = {"usage": [], "stdout": stdout, "stderr": stderr}
        found = []
        for number, member in enumerate(self.here):
            folder = self.spool / "out"
            if self.cell.scenario.placement == "together":
                folder = folder / f"member-{number}"
            used = self.used() if number == 0 else Counters()
            document, left = self._document(member, folder, used, stderr)
            found.append({"record": document, **left, **shared})
            shared = {"usage": [], "stdout": "", "stderr": ""}
        return found

    def _end(self) -> float:
        if self.ended is not None:
            return self.ended.at
        return time.monotonic() if self._clock["launched"] else 0.0

    def _document(
        self, member: Member, folder: Path, used: Counters, stderr: str
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Its record, and the other files that it left."""
        slot = {key: self._order.slot[key] for key in ("run", "slot", "hosts")}
        document = record.base({**self.trial, **slot}, self._image, self._order.dataset)
        document["member"] = {key: member[key] for key in ("role", "index", "host")}
        document["started"], document["clock"] = self._started, dict(self._clock)
        if self.trial.get("side"):
            document["duet"] = {"side": self.trial["side"], "cpus": self.cell.resources.cpus}
        reason = self.reason or self._why_failed()
        result, rows, left = {}, list[dict[str, Any]](), {"steps": "", "trace": ""}
        try:
            left["steps"], rows = record.read_steps(folder)
            left["trace"] = record.read_trace(folder)
            result = record.read_result(folder) if reason is None else {}
        except ValueError as error:
            reason = reason or ("output", str(error))
        record.complete(document, result, rows, used)
        if self._runtime and member is self.here[0]:
            document["phases"] |= self._runtime.phases()
        on_disk = self.trial.get("scratch") and self._storage == storage.DISK
        if on_disk and member is self.here[0]:
            document["metrics"]["scratch"] = record.space(self.spool / "scratch")
        if reason is None:
            document["status"] = "ok"
        else:
            said = stderr.strip()[-2000:]
            document["reason"] = {"cause": reason[0], "message": f"{said}\n{reason[1]}".strip()}
        return document, left

    def _why_failed(self) -> Reason | None:
        if self.ended is None:
            return "start", "it was not started"
        found = why_failed(self.ended, self.cell.resources)
        # Its own last words may have found no room, either.
        if found and shutil.disk_usage(self.spool).free < FULL:
            return found[0], f"{found[1]}: No space left on device, at {self.spool}"
        return found

    def remove(self) -> str:
        """Leave nothing. What could not be removed, or ''; that must not cost the measurement."""
        why = ""
        try:
            if self._runtime:
                self._runtime.remove()
        except OSError as error:
            why = f"of program {self.name} itself, could not be removed: {error}"
        shutil.rmtree(self.spool, ignore_errors=True)
        return why

    def used(self) -> Counters:
        """What it has used so far; once it has ended, all that it used."""
        return self._runtime.usage() if self._runtime else Counters()

    def _spec(self) -> Spec:
        order, cell = self._order, self.cell
        data = order.dataset.get("path") if cell.options.get("data") == "real" else None
        return Spec(
            name=self.name,
            run=order.slot["run"],
            workload=cell.workload,
            spool=self.spool,
            image=self._image,
            account=self.account,
            data=Path(data) if data else None,
            network=members.network(cell, self.here[0]),
            peers_network=cell.platform.network,
            service=members.service(self.trial, self.here[0]),
            resources=cell.resources,
            ports=members.ports(self.trial, self.here),
            place=members.place(self.trial, self.here[0], order.places),
            member_of=self.trial["trial"],
            from_hosts=members.from_hosts(self.trial, order.addresses, order.places),
            trial=self.trial["trial"] if members.own_network(cell) else "",
            scratch=self.trial.get("scratch", False),
            storage=self._storage,
            environment=base.ENVIRONMENT,
        )

    def _write_config(self, spec: Spec) -> None:
        """It holds the key of the trial: no other account reads it, or gets to it on the host."""
        self.spool.parent.mkdir(parents=True, exist_ok=True)
        self.spool.mkdir(mode=0o700)
        own = ["out", "scratch"] if spec.scratch else ["out"]
        for name in ("in", *own):
            (self.spool / name).mkdir()
        path = self.spool / "in" / "config.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(self._config(spec)))
        for owned in (*(self.spool / name for name in own), path):
            os.chown(owned, self.account, -1)

    def _config(self, spec: Spec) -> dict[str, Any]:
        given, where = self.cell.resources, base.inside(spec)
        config: dict[str, Any] = {
            "options": self.cell.options,
            "data_dir": where.data if spec.data else None,
            "cpus": count(given.cpus, given.quota),
        }
        if self.trial["role"] == "background":
            config["until_terminated"] = True
        if spec.scratch:
            config["scratch"] = where.scratch
        if self.cell.scenario.placement == "together":
            config["together"] = self._together(given)
        elif len(self.trial["members"]) > 1:
            config |= self._peers(self.here[0])
        return config

    def _peers(self, member: Member) -> dict[str, Any]:
        return members.told(
            self.trial, member, self._order.addresses, self._order.key, self._order.places
        )

    def _together(self, given: Resources) -> list[dict[str, Any]]:
        cpus = cpu_list(given.cpus) or sorted(os.sched_getaffinity(0))
        pinned = members.pins(self.here, cpus)
        return [
            {
                **self._peers(member),
                "affinity": chosen,
                "cpus": len(chosen),
            }
            for member, chosen in zip(self.here, pinned, strict=True)
        ]


def _given(trial: dict[str, Any]) -> Cell:
    """The cell of a trial; of a duet's with the half of the CPUs that its slot gives it."""
    cell = Cell.of(trial["levels"])
    if not trial.get("side"):
        return cell
    own = cpus.halves(cpus.cores())[trial["side"] - 1]
    return replace(cell, resources=replace(cell.resources, cpus=own))


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    """Raises StartError for whatever this host refuses, and for levels that mean nothing here."""
    try:
        yield
    except OSError as error:
        raise StartError(f"{what}: {error}") from error
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        said = f"{type(error).__name__}: {error}"
        raise StartError(f"{what}: its levels cannot be used here: {said}") from error


def cpu_list(cpus: str | None) -> list[int]:
    """The CPUs of a set in order; none where it is None. Raises ValueError."""
    return sorted(units.cpu_set(cpus)) if cpus else []


def count(cpus: str | None, quota: float | None = None) -> int | None:
    """How many CPUs the program may count on; None: all of the host."""
    chosen = len(cpu_list(cpus)) or (os.cpu_count() or 1)
    if quota:
        return max(1, min(chosen, int(quota)))
    return chosen if cpus else None


def why_failed(ended: Ended, given: Resources) -> Reason | None:
    """The cause of an end that was no success, or None."""
    if ended.code == 0:
        return None
    if ended.memory and given.memory is None:
        return "memory", "the kernel killed it because the host had no memory left"
    if ended.memory:
        return "memory", f"it needed more than its memory limit of {given.memory} bytes"
    if ended.code == PEER_LOST:
        return "peer", "a peer was not found, or went away"
    if ended.code < 0:
        meaning = ILLEGAL if ended.code == -signal.SIGILL else ""
        return "exit", f"it was ended by signal {_signal_name(-ended.code)}{meaning}"
    return "exit", f"it ended with status {ended.code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)
