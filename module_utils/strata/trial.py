"""One trial on this host: started, watched, measured, ended, cleaned up, described.

A trial that fails is a result like any other: its record says why. Only what the controller
did wrong (no lease, an unknown runtime) is an error.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import alone, fingerprint, lease, processes, record, runtimes, told, usage
from .runtimes import Counters, Ended, Runtime, RuntimeLostError, Spec, StartError

TICK = 0.1  # seconds between looks at the controller, the clock and the counters
STACK_SECONDS = 1.0


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
    with alone.only_one(lease.folder()), told.Told() as signals:
        stale = runtimes.leftovers() + _clear(order.state_dir / "trials")
        if stale:
            document["flags"].append({"name": "leftovers", "detail": ", ".join(stale)})
        document["drift"] = fingerprint.drift(order.reference) if order.reference else []
        document["flags"] += alone.settle()
        try:
            spec = _spool(order, spool)
            runtime = make(str(order.levels["runtime"]), spec)
            watch = _Watch(runtime, order.time_limit, lambda: signals.to_end() or gone())
            try:
                return _run(order, spec, runtime, document, watch)
            finally:
                _remove(runtime, document)
        finally:
            shutil.rmtree(spool, ignore_errors=True)


def _remove(runtime: Runtime, document: dict[str, Any]) -> None:
    """What cannot be removed is said; it must not cost the measurement."""
    try:
        runtime.remove()
    except OSError as error:
        detail = f"of this trial itself, could not be removed: {error}"
        document["flags"].append({"name": "leftovers", "detail": detail})


def _run(
    order: Order, spec: Spec, runtime: Runtime, document: dict[str, Any], watch: _Watch
) -> dict[str, Any]:
    sampler = usage.Sampler(runtime.usage)
    document["started"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    clock = document["clock"]
    clock["launched"] = clock["finished"] = time.monotonic()
    reason, finished = None, 0.0
    try:
        runtime.prepare()
        watch.look()
        sampler.start()
        clock["launched"] = time.monotonic()
        runtime.launch()
        ended = watch.until_end()
        finished = ended.at
        reason = why_failed(ended, order.levels)
    except StartError as error:
        reason = ("start", str(error))
    except RuntimeLostError as error:
        reason = ("runtime_lost", str(error))
    except TimeoutError as error:
        reason = ("timeout", str(error))
    except LostController as error:
        reason = ("controller_lost", str(error))
    clock["finished"] = max(finished or time.monotonic(), clock["launched"])
    sampler.stop()
    used = runtime.usage()
    stdout, stderr = runtime.logs()
    steps = _complete(document, spec, used, sampler, reason, stderr)
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
    reason: tuple[str, str] | None,
    stderr: str,
) -> str:
    """Fill in the outcome: result, phases, metrics, flags, status. Returns the steps."""
    result: dict[str, Any] = {}
    steps, rows = "", list[dict[str, Any]]()
    try:
        steps, rows = record.read_steps(spec.spool / "out")
        result = record.read_result(spec.spool / "out") if reason is None else {}
    except ValueError as error:
        reason = reason or ("output", str(error))
    clock = document["clock"]
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
    else:
        cause, message = reason
        last = stderr.strip()[-2000:]
        document["reason"] = {"cause": cause, "message": f"{last}\n{message}".strip()}
    return steps


def why_failed(ended: Ended, levels: dict[str, Any]) -> tuple[str, str] | None:
    """The cause of an end that was no success, or None."""
    if ended.code == 0:
        return None
    if ended.memory and levels["memory"] is None:
        return "memory", "the kernel killed it because the host had no memory left"
    if ended.memory:
        return "memory", f"it needed more than its memory limit of {levels['memory']} bytes"
    if ended.code < 0:
        return "exit", f"it was ended by signal {_signal_name(-ended.code)}"
    return "exit", f"it ended with status {ended.code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)


class _Watch:
    """Waits for the end of a program, within the time limit and the controller's life."""

    def __init__(self, runtime: Runtime, limit: float, gone: Callable[[], str | bool]) -> None:
        self._runtime, self._limit, self._gone = runtime, limit, gone

    def look(self) -> None:
        """Raises LostController when nobody waits for the result."""
        why = self._gone()
        if why:
            what = why if isinstance(why, str) else "the controller went away"
            raise LostController(f"{what} while the trial ran")

    def until_end(self) -> Ended:
        """Raises TimeoutError, LostController, or what the runtime raises."""
        deadline = time.monotonic() + self._limit
        while True:
            ended = self._runtime.wait(TICK)
            if ended is not None:
                return ended
            self.look()
            if time.monotonic() > deadline:
                self._ask_for_stack()
                raise TimeoutError(f"it did not end within {self._limit:g} s; its stack is above")

    def _ask_for_stack(self) -> None:
        """Python's fault handler writes the stack of every thread on SIGABRT."""
        self._runtime.signal(signal.SIGABRT)
        self._runtime.wait(STACK_SECONDS)


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
    """End what still runs of trials that were killed, and remove their folders."""
    stale = list(trials.iterdir()) if trials.is_dir() else []
    found = []
    for path in stale:
        if processes.end_noted(path / processes.FILE):
            found.append(f"processes of trial {path.name}")
        shutil.rmtree(path)
        found.append(f"folder of trial {path.name}")
    return found
