"""Whether somebody wants what a module does to end: a signal, or the loss of its controller.

What a module starts or makes ends with its controller. One that can end in order asks
`Signals.to_end` and `Controller.gone` between its steps; one that cannot says `ends_with`.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from typing import Any

from ..host import lease

LOOK_S = 1.0
GRACE_S = 10.0  # to remove what is half made


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
        if not self._holder:
            return False
        lost = self._run and not lease.is_ours(self._run, self._holder)
        return bool(lost) or lease.dead(self._holder)


class Signals:
    """SIGTERM, SIGINT and SIGHUP end the trial in order instead of on the spot.

    They are noted and looked at, not raised: an exception could come in the middle of the clean-up.
    """

    NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self) -> None:
        self._by = ""
        self._before: dict[int, Any] = {}

    def to_end(self) -> str:
        """The signal that asked for the end, in words, or ''."""
        return self._by and f"{self._by} told it to end"

    def _note(self, number: int, _: object) -> None:
        self._by = signal.Signals(number).name

    def __enter__(self) -> Signals:
        self._before = {number: signal.signal(number, self._note) for number in self.NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def ends_with(holder: dict[str, Any]) -> None:
    """From now on this process ends when its controller does: what it makes, nobody waits for.

    `holder` is the process of ansible-playbook, or empty where only its pipe can tell. The end is a
    KeyboardInterrupt, so that what is half made is removed; after `GRACE_S` it is a kill.
    """
    for number in Signals.NUMBERS:
        signal.signal(number, signal.default_int_handler)
    watching = threading.Thread(target=_watch, args=(Controller(holder),), daemon=True)
    # The thread takes no signal: while the main one forks and takes none itself, it would get them,
    # and the main one would go on waiting for its program.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, Signals.NUMBERS)
    watching.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(controller: Controller) -> None:
    while not controller.gone():
        time.sleep(LOOK_S / 2)
    # The very thread, or what it waits for would go on.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)
