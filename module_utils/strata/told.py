"""Whether somebody wants what a module does to end: a signal, or the loss of its controller.

What a module starts or makes ends with its controller. One that can end in order asks
`Told.to_end` and `Controller.gone` between its steps; one that cannot wraps its work in
`ends_with`, which leaves it wherever it is, by an exception.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import lease

LOOK_S = 1.0


def reader_gone(descriptor: int = 1) -> bool:
    """Whether the other end of our standard output has been closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


class Controller:
    """Whether the controller is still there.

    Its end of our pipe tells, but not always: the worker that Ansible forks for a task outlives a
    killed ansible-playbook, and goes on reading. Its process tells where it is on this machine;
    elsewhere the lease does, where `run` is the run that must hold it.
    """

    def __init__(self, holder: dict[str, Any], run: str = "") -> None:
        self._run, self._holder = run, holder
        self._looked = time.monotonic()

    def gone(self) -> bool:
        if reader_gone():
            return True
        if time.monotonic() - self._looked < LOOK_S:
            return False
        self._looked = time.monotonic()
        return lease.dead(self._holder) or bool(
            self._run and not lease.is_ours(self._run, self._holder)
        )


class Told:
    """SIGTERM, SIGINT and SIGHUP end the trial in order instead of on the spot.

    They are noted and looked at, not raised: an exception could come in the middle of the clean-up.
    """

    NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self) -> None:
        self._by = ""
        self._before: dict[int, Any] = {}

    def to_end(self) -> str:
        """Who told, or ''."""
        return self._by and f"{self._by} told it to end"

    def _note(self, number: int, _: object) -> None:
        self._by = signal.Signals(number).name

    def __enter__(self) -> Told:
        self._before = {number: signal.signal(number, self._note) for number in self.NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def ends_with(gone: Callable[[], bool], every: float = LOOK_S / 2) -> Iterator[None]:
    """Leave the block by SystemExit once `gone()` says so, or on SIGTERM, SIGINT or SIGHUP.

    `gone` is asked every so many seconds. The exception is raised once, in the main thread: what
    `finally` and `with` clean up in the block is cleaned up, and subprocess.run ends its program.
    """
    over, left = threading.Event(), list[int]()

    def leave(number: int, _: object) -> None:
        if not left:
            left.append(number)
            raise SystemExit(128 + number)

    def watch() -> None:
        while not over.wait(every):
            if gone():
                os.kill(os.getpid(), signal.SIGTERM)
                return

    before = {number: signal.signal(number, leave) for number in Told.NUMBERS}
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        for number, handler in before.items():
            signal.signal(number, handler)
