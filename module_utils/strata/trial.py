"""One trial on this host: started, watched, measured, ended, cleaned up, described.

A trial that fails is a result like any other: its record says why. Only what the controller
did wrong (no lease, an unknown runtime) is an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import fingerprint, record, runtimes, usage
from .errors import Refused
from .runtimes import Counters, Ended, Runtime, RuntimeLostError, Spec, StartError

TICK = 0.1  # seconds between looks at the controller, the clock and the counters
IDLE_SAMPLE = 0.2
IDLE_SHARE = 0.25  # of all cores that others may use before the host counts as busy
IDLE_PATIENCE = 3.0
STACK_SECONDS = 1.0
LOCK_SECONDS = 20.0


@dataclass(frozen=True)
class Order:
    """What the controller asks for."""

    trial: dict[str, Any]
    image: dict[str, str]
    dataset: dict[str, Any]
    reference: dict[str, Any]
    time_limit: float
    state_dir: Path

    @property
    def levels(self) -> dict[str, Any]:
        return dict(self.trial["levels"])


class LostController(Exception):  # noqa: N818 - what happened, not a fault of this program
    """Nobody waits for the result any more."""


def run(
    order: Order,
    gone: Callable[[], bool],
    make: Callable[[str, Spec], Runtime] = runtimes.make,
) -> dict[str, Any]:
    """Run the trial; its outcome is `{record, steps, usage, stdout, stderr}`.

    `gone` says whether the controller is no longer there; the trial is then ended. The
    host's lease must be held by the run: what a killed trial left behind is removed first.
    """
    spool = order.state_dir / "trials" / order.trial["trial"]
    document = record.base(order.trial, order.image, order.dataset)
    with _only_one(order.state_dir), _signals_end_it():
        stale = runtimes.leftovers() + _clear(order.state_dir / "trials")
        if stale:
            document["flags"].append({"name": "leftovers", "detail": ", ".join(stale)})
        document["drift"] = fingerprint.drift(order.reference) if order.reference else []
        document["flags"] += settle()
        spec = _spool(order, spool)
        runtime = make(str(order.levels["runtime"]), spec)
        try:
            return _run(order, spec, runtime, document, gone)
        finally:
            runtime.remove()
            shutil.rmtree(spool, ignore_errors=True)


def _run(
    order: Order,
    spec: Spec,
    runtime: Runtime,
    document: dict[str, Any],
    gone: Callable[[], bool],
) -> dict[str, Any]:
    watch = _Watch(runtime, order.time_limit, gone)
    sampler = usage.Sampler(runtime.usage)
    document["started"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    clock = document["clock"]
    clock["launched"] = clock["finished"] = time.monotonic()
    reason = None
    try:
        runtime.prepare()
        sampler.start()
        clock["launched"] = time.monotonic()
        runtime.launch()
        ended = watch.until_end()
        reason = why_failed(ended, order.levels)
    except StartError as error:
        reason = ("start", str(error))
    except RuntimeLostError as error:
        reason = ("runtime_lost", str(error))
    except TimeoutError as error:
        reason = ("timeout", str(error))
    except LostController as error:
        reason = ("controller_lost", str(error))
    clock["finished"] = max(time.monotonic(), clock["launched"])
    sampler.stop()
    stdout, stderr = runtime.logs()
    steps = record.read_steps(spec.spool / "out")
    _complete(document, spec, watch.used, sampler, steps, reason, stderr)
    return {
        "record": document,
        "steps": steps,
        "usage": sampler.rows,
        "stdout": stdout,
        "stderr": stderr,
    }


def _complete(
    document: dict[str, Any],
    spec: Spec,
    used: Counters,
    sampler: usage.Sampler,
    steps: str,
    reason: tuple[str, str] | None,
    stderr: str,
) -> None:
    """Fill in the outcome: result, phases, metrics, flags, status."""
    result: dict[str, Any] = {}
    if reason is None:
        try:
            result = record.read_result(spec.spool / "out")
        except ValueError as error:
            reason = ("output", str(error))
    clock = document["clock"]
    rows = [json.loads(line) for line in steps.splitlines()]
    seconds = clock["finished"] - clock["launched"]
    document["phases"] = record.phases(
        result.get("marks", {}), rows, clock["launched"], clock["finished"]
    )
    document["metrics"] = record.metrics(result, document["phases"], used, clock)
    document["flags"] += result.get("flags", [])
    document["flags"] += record.flags(
        sampler.first, sampler.last, used, os.cpu_count() or 1, seconds
    )
    document["workload"] = result
    if reason is None:
        document["status"] = "ok"
        return
    cause, message = reason
    last = stderr.strip()[-2000:]
    document["reason"] = {"cause": cause, "message": f"{last}\n{message}".strip()}


def why_failed(ended: Ended, levels: dict[str, Any]) -> tuple[str, str] | None:
    """The cause of an end that was no success, or None."""
    if ended.code == 0:
        return None
    if ended.memory:
        return "memory", f"it needed more than its memory limit of {levels['memory']} bytes"
    if ended.code < 0:
        return "exit", f"it was ended by signal {signal.Signals(-ended.code).name}"
    return "exit", f"it ended with status {ended.code}"


class _Watch:
    """Waits for the end of a program, within the time limit and the controller's life."""

    def __init__(self, runtime: Runtime, limit: float, gone: Callable[[], bool]) -> None:
        self._runtime, self._limit, self._gone = runtime, limit, gone
        self.used = Counters()

    def until_end(self) -> Ended:
        """Raises TimeoutError, LostController, or what the runtime raises."""
        deadline = time.monotonic() + self._limit
        while True:
            ended = self._runtime.wait(TICK)
            now = self._runtime.usage()
            self.used = now if now.cpu is not None else self.used
            if ended is not None:
                return ended
            if self._gone():
                raise LostController("the controller went away while the trial ran")
            if time.monotonic() > deadline:
                self._ask_for_stack()
                raise TimeoutError(f"it did not end within {self._limit:g} s; its stack is above")

    def _ask_for_stack(self) -> None:
        """Python's fault handler writes the stack of every thread on SIGABRT."""
        self._runtime.signal(signal.SIGABRT)
        self._runtime.wait(STACK_SECONDS)


def settle() -> list[dict[str, str]]:
    """Wait a little for the host to be idle; a flag when it is not."""
    cores, deadline = os.cpu_count() or 1, time.monotonic() + IDLE_PATIENCE
    while True:
        before, begin = usage.totals().cpu_busy, time.monotonic()
        time.sleep(IDLE_SAMPLE)
        busy = (usage.totals().cpu_busy - before) / (time.monotonic() - begin)
        if busy <= IDLE_SHARE * cores:
            return []
        if time.monotonic() > deadline:
            detail = f"{busy:.1f} of {cores} cores were in use before it began"
            return [{"name": "not_idle", "detail": detail}]


def reader_gone(descriptor: int = 1) -> bool:
    """Whether the other end of our standard output has been closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _spool(order: Order, spool: Path) -> Spec:
    """Make the trial's folder with its config, and say what is to be started."""
    levels = order.levels
    data = order.dataset.get("path") if levels.get("data") == "real" else None
    spec = Spec(
        trial=order.trial["trial"],
        run=order.trial["run"],
        workload=levels["workload"],
        spool=spool,
        image=order.image,
        data=Path(data) if data else None,
        network=levels["network"],
        cpus=levels["cpus"],
        memory=levels["memory"],
        numa=levels["numa"],
        gpus=[str(gpu) for gpu in levels["gpus"] or []],
        environment=runtimes.ENVIRONMENT,
    )
    for name in ("in", "out"):
        (spool / name).mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(spool / "out", runtimes.UID, runtimes.GID)
    config = {
        "options": {k: v for k, v in levels.items() if k not in NOT_OPTIONS},
        "data_dir": runtimes.inside(spec).data if data else None,
        "cpus": _count(levels["cpus"]),
    }
    (spool / "in" / "config.json").write_text(json.dumps(config))
    return spec


# The levels that are not options of the workload: what it runs on.
NOT_OPTIONS = (
    "substrate", "runtime", "network", "label", "workload", "cpus", "memory", "numa", "gpus",
)  # fmt: skip


def _count(cpus: str | None) -> int | None:
    """How many CPUs a set such as `0-3,8` holds."""
    if cpus is None:
        return None
    ranges = [part.split("-") for part in cpus.split(",")]
    return sum(int(ends[-1]) - int(ends[0]) + 1 for ends in ranges)


def _clear(trials: Path) -> list[str]:
    """Remove the spool folders of trials that were killed."""
    stale = list(trials.iterdir()) if trials.is_dir() else []
    for path in stale:
        shutil.rmtree(path)
    return [f"folder of trial {path.name}" for path in stale]


@contextlib.contextmanager
def _only_one(state_dir: Path) -> Iterator[None]:
    """One trial at a time on a host, whatever leases say. The kernel lets go when we die."""
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "trial.lock").open("w") as lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Refused(
                        "another trial is running on this host",
                        given=str(state_dir / "trial.lock"),
                        then="wait for its end",
                    ) from None
                time.sleep(TICK)
        yield


@contextlib.contextmanager
def _signals_end_it() -> Iterator[None]:
    """SIGTERM, SIGINT and SIGHUP end the trial in order instead of on the spot."""

    def lost(number: int, _: object) -> None:
        raise LostController(f"the trial was told to end by {signal.Signals(number).name}")

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, lost) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
