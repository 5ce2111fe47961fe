"""SIGTERM as a wish: with `until_terminated` a workload goes on until then, and ends well."""

import signal
from types import FrameType


class Termination:
    """Whether the measured phase has no end of its own, and whether it is to end now."""

    def __init__(self, awaited: bool = False) -> None:
        """`awaited`: the key `until_terminated` of config.json."""
        self.awaited = awaited
        self.asked = False

    def listen(self) -> None:
        """Takes SIGTERM, also as process 1 of a container, which has no default for it."""
        if self.awaited:
            signal.signal(signal.SIGTERM, self._hear)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
