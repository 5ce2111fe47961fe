"""What a host and the programs of a slot use while they run, and who used the CPUs.

One sampler a slot: the files of the host are read once a tick, however many programs there are.
Who used the CPUs follows from counters that are never reset, the host's and those of the groups
that are known; what is left of the host's belongs to all others, however short they lived.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from . import counters, lease, processes
from .counters import Counters, Totals

INTERVAL = 0.5  # seconds
# Of the time of one CPU, at most, that the looking takes: a slow host, an emulated one say, is
# looked at less often.
SHARE = 0.01


@dataclass(frozen=True)
class Sample:
    """Counters at one instant; each only grows."""

    mono: float
    host: Totals
    strata: float  # CPU seconds of Strata's own processes
    programs: dict[str, Counters]  # those that had been launched, by name
    # Of the processes that runtimes and networks run for it; None where they are not seen.
    platform: float | None = 0.0
    gauges: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Spent:
    """Who used the CPUs between two samples, in CPU seconds.

    `trial` and `others` are None when a program has not said what it used: what is left over
    could then be its own. So is `beside` when that program is another trial's, and `platform` and
    `others` where the processes of the host are not seen.
    """

    seconds: float
    trial: float | None
    beside: float | None
    strata: float
    platform: float | None
    others: float | None


def spent(before: Sample, after: Sample, own: Collection[str]) -> Spent:
    """Who used the CPUs from `before` to `after`, seen by the trial of the programs `own`.

    Time that a hypervisor took, that passed in waiting for a disk, or that interrupts took is
    nobody's. Interrupts serve whoever waits for them: those of a trial's packets are no sign of
    another program.
    """
    mine = _grown(before, after, [name for name in after.programs if name in own])
    beside = _grown(before, after, [name for name in after.programs if name not in own])
    strata = max(0.0, after.strata - before.strata)
    platform = None
    if before.platform is not None and after.platform is not None:
        platform = max(0.0, after.platform - before.platform)
    others = None
    if mine is not None and beside is not None and platform is not None:
        busy = after.host.cpu_busy - before.host.cpu_busy
        busy -= after.host.interrupts - before.host.interrupts
        others = max(0.0, busy - mine - beside - strata - platform)
    return Spent(after.mono - before.mono, mine, beside, strata, platform, others)


def _grown(before: Sample, after: Sample, names: list[str]) -> float | None:
    """CPU seconds of programs; one that `before` does not have was launched since."""
    total = 0.0
    for name in names:
        now, then = after.programs[name].cpu, before.programs.get(name, Counters(cpu=0.0)).cpu
        if now is None:
            return None
        total += max(0.0, now - (then or 0.0))
    return total


class Sampler:
    """Samples from the launch of the first program until stopped, on a thread of its own.

    `begin` and `end` note the span in which the trial is measured: from when all programs of the
    slot had been launched to when those of the trial had ended. What a runtime's engine does to
    start them lies before it. `daemons` are the names of processes that a platform runs for it.
    """

    def __init__(self, daemons: Collection[str] = ()) -> None:
        self._programs: dict[str, Callable[[], Counters]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._strata = processes.up_to(lease.local_holder())
        self._daemons = processes.Daemons(daemons)
        self._asking = 0.0  # CPU seconds of programs that the host's state was asked of
        self._samples: list[Sample] = []
        self._first: Sample | None = None
        self._last: Sample | None = None

    def watch(self, name: str, usage: Callable[[], Counters]) -> None:
        """From now on sample this program, too; it has just been launched."""
        # A new mapping: the thread may be walking through the present one.
        self._programs = {**self._programs, name: usage}
        if self._thread.ident is None:
            self._thread.start()

    def begin(self) -> None:
        """The measured span begins."""
        self._daemons.look()
        self._first = self._take()

    def end(self) -> None:
        """The measured span ends, unless it has ended already."""
        if self._first and not self._last:
            self._daemons.look()
            self._last = self._take()

    def stop(self) -> None:
        """End; also the span. Also for a sampler that was never started."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.end()

    @property
    def span(self) -> tuple[Sample, Sample] | None:
        """The samples at both ends of the measured span; None when nothing was measured."""
        return (self._first, self._last) if self._first and self._last else None

    def measured(self) -> list[Sample]:
        """All samples of the measured span, those at its ends among them; empty without one."""
        if not self.span:
            return []
        first, last = self.span
        return [first, *(s for s in self._samples if first.mono < s.mono < last.mono), last]

    def rows(self, own: Collection[str], begin: float, end: float) -> list[dict[str, Any]]:
        """The rows of usage.parquet of the trial of the programs `own`, which ran in that time."""
        pairs = zip(self._samples, self._samples[1:], strict=False)
        return [_row(a, b, own) for a, b in pairs if b.mono > begin and a.mono < end]

    def _run(self) -> None:
        # What they used before belongs to no row.
        self._daemons.look()
        self._samples.append(self._take())
        pause = INTERVAL
        while not self._stopped.wait(pause):
            before = time.thread_time()
            gauges, asking = counters.gauges()
            self._asking += asking
            self._samples.append(self._take(gauges))
            pause = max(INTERVAL, (time.thread_time() - before) / SHARE)

    def _take(self, gauges: dict[str, float | None] | None = None) -> Sample:
        used = {name: usage() for name, usage in self._programs.items()}
        strata = processes.cpu_seconds(self._strata) + self._asking
        platform = self._daemons.cpu()
        return Sample(time.monotonic(), counters.totals(), strata, used, platform, gauges or {})


def _row(before: Sample, now: Sample, own: Collection[str]) -> dict[str, Any]:
    found = spent(before, now, own)
    memory = [used.memory for name, used in now.programs.items() if name in own]
    by_whom = {
        "workload_cpu": found.trial,
        "beside_cpu": found.beside,
        "strata_cpu": found.strata,
        "platform_cpu": found.platform,
        "others_cpu": found.others,
    }
    return {
        "mono": now.mono,
        **counters.rates(before.host, now.host, found.seconds),
        **now.gauges,
        **{name: None if cpu is None else cpu / found.seconds for name, cpu in by_whom.items()},
        "workload_memory": None if None in memory else sum(filter(None, memory)),
    }
