"""What a workload leaves: result.json, written at once at the end, and steps.jsonl as it goes."""

import json
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from workloads._declare import DeclarationError, Metric
from workloads._peers import Peers
from workloads._place import Place
from workloads._termination import Termination

SCHEMA = 2
FLUSH_S = 1.0


class FailureError(Exception):
    """The work cannot go on; the message is the one line that the user sees."""

    status: ClassVar[int] = 1  # of the process


# phase, step, worker, mono, wall, items, loss, input_s, compute_s, exchange_s, duration_s; a loss
# of None is left out
Step = tuple[str, int, int, float, float, int, float | None, float, float, float, float]


class StepLog:
    """steps.jsonl: adding a step is one append; a thread formats and writes each second.

    So a killed trial leaves all steps but those of its last second, and a step costs well
    below a microsecond of the loop's own time.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file; the thread starts with the `with` statement."""
        self._waiting: deque[Step] = deque()
        self._file = path.open("w", encoding="utf-8")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._flush_often, daemon=True)
        self.add = self._waiting.append  # add(step): atomic, no lock needed

    def __enter__(self) -> Self:
        """Starts to write."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Writes what is left, also after a failure."""
        self._stop.set()
        self._thread.join()
        self._flush()
        self._file.close()

    def _flush_often(self) -> None:
        while not self._stop.wait(FLUSH_S):
            self._flush()

    def _flush(self) -> None:
        lines = []
        while self._waiting:
            lines.append(_line(self._waiting.popleft()))
        if lines:
            self._file.write("".join(lines))
            self._file.flush()


def _line(step: Step) -> str:
    phase, number, worker, mono, wall, items, loss, input_s, compute_s, exchange_s, duration_s = (
        step
    )
    known = "" if loss is None else f'"loss": {loss!r}, '
    return (
        f'{{"step": {number}, "phase": "{phase}", "worker": {worker}, "mono": {mono:.9f}, '
        f'"wall": {wall:.6f}, "items": {items}, {known}"input_s": {input_s:.9f}, '
        f'"compute_s": {compute_s:.9f}, "exchange_s": {exchange_s:.9f}, '
        f'"duration_s": {duration_s:.9f}}}\n'
    )


@dataclass
class Context:
    """What a workload is given besides its options, and where it puts what it found."""

    name: str
    out: Path
    steps: StepLog
    data_dir: Path | None = None
    cpus: int | None = None
    place: Place | None = None  # among those it trains with; None: alone
    termination: Termination = field(default_factory=Termination)
    metrics: tuple[Metric, ...] = ()  # the workload's declarations
    items: str | None = None  # the unit of the items in a step
    peers: Peers | None = None  # the other members, of a workload whose members do not train
    scratch: Path | None = None  # space to write to, of a workload that is WRITABLE
    scalars: dict[str, dict[str, Any]] = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    flags: list[dict[str, str]] = field(default_factory=list)
    cluster: dict[str, Any] | None = None

    def mark(self, name: str) -> float:
        """Marks an instant (s, CLOCK_MONOTONIC)."""
        self.marks[name] = now = time.monotonic()
        return now

    def scalar(self, name: str, value: float) -> None:
        """One number of the result, in the unit that its metric declares. DeclarationError."""
        for metric in self.metrics:
            if metric.name == name:
                self.scalars[name] = {"value": value, "unit": metric.unit}
                return
        raise DeclarationError(f"{self.name} does not declare the metric {name}")

    def flag(self, name: str, detail: str) -> None:
        """A doubt about the measurement."""
        self.flags.append({"name": name, "detail": detail})

    def write(self) -> None:
        """result.json, all of it or nothing; refuses numbers that are not finite."""
        document = {
            "schema": SCHEMA,
            "workload": self.name,
            "items": self.items,
            "scalars": self.scalars,
            "marks": self.marks,
            "environment": self.environment,
            "flags": self.flags,
            "cluster": self.cluster,
        }
        try:
            text = json.dumps(document, allow_nan=False, indent=1)
        except ValueError as error:
            raise FailureError(f"the result has a number that is not finite: {error}") from error
        write_atomically(self.out / "result.json", text + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Writes beside the file, syncs, renames."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
