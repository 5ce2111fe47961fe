"""A slot's trials on this host: started, watched, measured, ended, cleaned up, described.

A trial that fails is a result like any other: its record says why. Only what the controller
did wrong (no lease, an unknown runtime) is an error.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import members, networks, runtimes
from ..errors import Refused
from ..host import (
    counters,
    exclusive,
    facts,
    fingerprint,
    lease,
    owned,
    packet_filter,
    processes,
)
from ..host.sampler import Sampler
from ..runtimes.base import Runtime, Spec, StartError
from . import account, record, reference, termination
from .order import Order
from .program import TICK, Program

STACK_SECONDS = 1.0
# How long the others of a trial have to end by themselves once one of them has failed.
PEER_SECONDS = 10.0
# How long a background job has to finish its step and write its result.
BACKGROUND_SECONDS = 60.0


class LostController(Exception):  # noqa: N818 - what happened, not a fault of this program
    """Nobody waits for the result any more."""


def run(
    order: Order,
    gone: Callable[[], bool],
    make: Callable[[str, Spec], Runtime] = runtimes.make,
) -> list[dict[str, Any]]:
    """Run the slot's share of this host; an outcome for each member of each trial that is here.

    An outcome is `{record, steps, usage, stdout, stderr}`. `gone` says whether the controller is
    no longer there; the trials are then ended. The host's lease must be held by the run: what a
    killed trial left behind is removed first. Raises Refused when the state folder is not Strata's.
    """
    owned.Folder(order.state_dir, "state").claim()
    with exclusive.only_one(lease.folder()), termination.Signals() as signals:
        flags = []
        stale = runtimes.leftovers() + _clear(order.state_dir / "trials")
        if packet_filter.put_back(order.state_dir):
            stale.append("rules of the packet filter that were out of the way")
        if stale:
            flags.append({"name": "leftovers", "detail": ", ".join(stale)})
        others = order.addresses.values()
        drift = fingerprint.drift(order.reference, others) if order.reference else []
        flags += exclusive.settle(exclusive.IDLE_PATIENCE if order.judged else 0.0)
        programs = _programs(order)
        runner = SlotRunner(programs, order.time_limit_s, lambda: signals.to_end() or gone())
        try:
            bursts = [reference.burst()] if order.judged else []
            met = _play(order, programs, lambda: runner.play(make))
            bursts += [reference.burst()] if order.judged else []
            outcomes = [outcome for program in programs for outcome in program.outcomes()]
            for outcome in outcomes if met else []:
                record.tell_filter(outcome["record"], met)
            _tell_usage(order, programs, outcomes, runner.sampler, bursts)
        finally:
            left = [why for why in [program.remove() for program in programs] if why]
        flags += [{"name": "leftovers", "detail": why} for why in left]
        for outcome in outcomes:
            outcome["record"]["flags"] = flags + outcome["record"]["flags"]
            outcome["record"]["drift"] = drift
        return outcomes


def _play(order: Order, programs: list[Program], play: Callable[[], None]) -> dict[str, Any]:
    """Play the slot, without the packet filter's rules where its network is without them.

    Where a plan compares that, what the slot's packets meet is told; nothing otherwise.
    """
    if not networks.is_unfiltered(order.slot.get("setting", "")):
        play()
        return {}
    if not any(networks.get(p.cell.platform.network).unfiltered for p in programs):
        met = packet_filter.met()
        play()
        return met
    met, cause = {}, "start"
    try:
        with packet_filter.out_of_the_way(order.state_dir):
            met, cause = packet_filter.met(), "disturbed"
            play()
    except Refused as refused:
        for program in programs:
            program.fail(cause, str(refused))
    return met


def _programs(order: Order) -> list[Program]:
    """The programs of all trials on this host, background jobs first. Raises Refused.

    Each trial has an account of its own.
    """
    taken = set[int]()
    found = [
        Program(order, trial, here, number)
        for trial in order.slot["trials"]
        for number in [account.own(taken)]
        for here in members.programs(order.host, trial)
    ]
    return sorted(found, key=lambda program: program.measured)


def _tell_usage(
    order: Order,
    programs: list[Program],
    outcomes: list[dict[str, Any]],
    sampler: Sampler,
    bursts: list[float],
) -> None:
    """Give what was sampled for a trial to the first of its outcomes on this host."""
    alone, measured = len(order.slot["hosts"]) == 1, sampler.measured()
    link = counters.link_speed() if alone else None
    shared = not alone and facts.virtualisation() == "container"
    for name in dict.fromkeys(program.trial["trial"] for program in programs):
        here = [outcome for outcome in outcomes if outcome["record"]["trial"] == name]
        own = {program.name for program in programs if program.trial["trial"] == name}
        clocks = [outcome["record"]["clock"] for outcome in here]
        begin = min(filter(None, (clock["launched"] for clock in clocks)), default=0.0)
        end = max(clock["finished"] for clock in clocks)
        here[0]["usage"] = sampler.rows(own, begin, end)
        if measured:
            record.tell_host(here[0]["record"], measured, own, link=link, shared=shared)
            if bursts:
                record.tell_reference(here[0]["record"], *bursts)


class SlotRunner:
    """Starts the programs of a slot in order and sees to it that all of them end."""

    def __init__(
        self, programs: list[Program], limit: float, gone: Callable[[], str | bool]
    ) -> None:
        self._programs, self._limit, self._gone = programs, limit, gone
        self._measured = [program for program in programs if program.measured]
        self._background = [program for program in programs if not program.measured]
        self._deadline = 0.0
        self.sampler = Sampler(runtimes.daemons() | networks.daemons())

    def play(self, make: Callable[[str, Spec], Runtime]) -> None:
        """Never raises what a trial may do; every program knows its reason afterwards."""
        self._deadline = time.monotonic() + self._limit
        try:
            if self._start(self._background, make):
                self._until(lambda: all(p.has_measured() or p.over for p in self._background))
                if any(program.over for program in self._background):
                    self._fail_all("overlap", "the background job ended before the measured one")
                else:
                    self._play_measured(make)
            self._end_background()
        except TimeoutError:
            self._ask_for_stacks()
            self._fail_all(
                "timeout", f"it did not end within {self._limit:g} s; its stack is above"
            )
        except LostController as error:
            self._fail_all("controller_lost", str(error))
        finally:
            self.sampler.stop()

    def _play_measured(self, make: Callable[[str, Spec], Runtime]) -> None:
        # Its own time begins when it does.
        self._deadline = time.monotonic() + self._limit
        if self._start(self._measured, make):
            self.sampler.begin()
            self._until(self._every_trial_is_over)
            self.sampler.end()
            self._free_peers()

    def _start(self, programs: list[Program], make: Callable[[str, Spec], Runtime]) -> bool:
        """Whether all of them started: first all are prepared, then all launched."""
        for what in (lambda p: p.prepare(make), self._launch):
            for program in programs:
                try:
                    what(program)
                except StartError as error:
                    program.fail("start", str(error))
                    return False
                self._look()
        return True

    def _launch(self, program: Program) -> None:
        program.launch()
        self.sampler.watch(program.name, program.used)

    def _every_trial_is_over(self) -> bool:
        """Or one of its programs has failed. The other trial of a duet goes on to its own end."""
        trials: dict[str, list[Program]] = {}
        for program in self._measured:
            trials.setdefault(program.trial["trial"], []).append(program)
        background_ended = any(program.over for program in self._background)
        return background_ended or all(map(_is_over, trials.values()))

    def _free_peers(self) -> None:
        """One has failed: the others notice, or are ended."""
        if any(program.over for program in self._background):
            self._fail_all("overlap", "the background job ended before the measured one")
            return
        deadline = min(time.monotonic() + PEER_SECONDS, self._deadline)
        for program in self._measured:
            if not program.wait(max(0.0, deadline - time.monotonic())):
                program.fail("peer", "it was ended because another program of the slot had ended")

    def _end_background(self) -> None:
        """Background jobs end when they are told to, with a result."""
        for program in self._background:
            program.signal(signal.SIGTERM)
        deadline = time.monotonic() + BACKGROUND_SECONDS
        for program in self._background:
            if not program.over and not program.wait(max(0.0, deadline - time.monotonic())):
                program.fail("timeout", "it did not end when it was told to")

    def _until(self, done: Callable[[], bool]) -> None:
        """Raises TimeoutError or LostController."""
        while not done():
            # The first that runs: it is the one to wait for when there is only one.
            waiting = next((p for p in reversed(self._programs) if not p.over), None)
            if waiting is None or not waiting.wait(TICK):
                self._look()
                if time.monotonic() > self._deadline:
                    raise TimeoutError

    def _look(self) -> None:
        """Raises LostController when nobody waits for the result."""
        why = self._gone()
        if why:
            what = why if isinstance(why, str) else "the controller went away"
            raise LostController(f"{what} while the trial ran")

    def _ask_for_stacks(self) -> None:
        """Python's fault handler writes the stack of every thread on SIGABRT."""
        running = [program for program in self._programs if not program.over]
        for program in running:
            program.fail("timeout", f"it did not end within {self._limit:g} s; its stack is above")
            program.signal(signal.SIGABRT)
            # One that was stopped can neither answer nor end.
            program.signal(signal.SIGCONT)
        deadline = time.monotonic() + STACK_SECONDS
        for program in running:
            program.wait(max(0.0, deadline - time.monotonic()))

    def _fail_all(self, cause: str, message: str) -> None:
        """Those that have not ended by themselves."""
        for program in self._programs:
            if program.ended is None:
                program.fail(cause, message)


def _is_over(programs: list[Program]) -> bool:
    """Whether all programs of a trial have ended, or one has failed."""
    failed = any(p.over and (p.ended is None or p.ended.code != 0) for p in programs)
    return failed or all(program.over for program in programs)


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
