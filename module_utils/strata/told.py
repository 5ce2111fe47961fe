"""Whether somebody wants the trial to end: a signal, or the controller's end of our pipe."""

from __future__ import annotations

import select
import signal
from typing import Any


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
