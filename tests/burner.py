"""A process that is no part of any trial."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from strata.host import processes


class Burner:
    """Takes what it can get of one CPU until it is left, and knows what it got when."""

    def __enter__(self) -> Burner:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "while True: pass"], start_new_session=True
        )
        os.sched_setaffinity(self._process.pid, {max(os.sched_getaffinity(0))})
        self._left = threading.Event()
        self._noted: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._note)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left.set()
        self._thread.join()
        self._process.kill()
        self._process.wait()

    def spent(self, begin: float, end: float) -> float:
        """CPU seconds that it surely got between two instants."""
        inside = [cpu for at, cpu in self._noted if begin <= at <= end]
        return inside[-1] - inside[0]

    def _note(self) -> None:
        stat = Path(f"/proc/{self._process.pid}/stat")
        while not self._left.wait(0.05):
            self._noted.append((time.monotonic(), processes.parse(stat.read_text()).own))
