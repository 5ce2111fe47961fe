"""Whether somebody wants us to end: a signal, or the controller, which is gone."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from typing import Any

from . import lease

LOOK_S = 0.5
GRACE_S = 10.0  # to remove what is half made


def reader_gone(descriptor: int = 1) -> bool:
    """Whether the other end of our standard output has been closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


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


def ends_with(holder: dict[str, Any]) -> None:
    """From now on this process ends when its controller does: what it makes, nobody waits for.

    `holder` is the process of ansible-playbook, or empty. A controller that was killed leaves its
    worker behind, and with it our pipe; so where it is one of this machine, it is looked for. The
    end is a KeyboardInterrupt, so that what is half made is removed; after `GRACE_S` it is a kill.
    """
    for number in Told.NUMBERS:
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_watch, args=(holder,), daemon=True).start()


def _watch(holder: dict[str, Any]) -> None:
    while not reader_gone() and not (holder and lease.dead(holder)):
        time.sleep(LOOK_S)
    # The very thread, or what it waits for would go on.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)
