"""A tool of the distribution: run to its end, and read by what it says.

Each workload that runs one has the real tool in its image and a parser of its own. What a parser
does not find is an error that names the tool, its version and the line: never a silent zero.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from workloads._output import Context, FailureError

MOST_SHOWN = 200  # characters of a line that is shown


class OutputError(FailureError):
    """A tool failed, or said something else than what is known of it; the message says what."""


class Process:
    """A tool that runs, and has ended when the `with` statement has."""

    def __init__(self, command: Sequence[str], folder: Path, family: str) -> None:
        """What it says goes to files in the folder. FailureError where the image lacks it."""
        self._name = Path(command[0]).name
        self._paths = [folder / f"{self._name}.{kind}" for kind in ("stdout", "stderr")]
        with self._paths[0].open("wb") as out, self._paths[1].open("wb") as err:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=err
                )
            except FileNotFoundError as error:
                raise lacking(self._name, family) from error

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends it, if it has not ended by itself."""
        self._process.kill()
        self._process.wait()

    def wait(self, seconds: float) -> bool:
        """Whether it ends within that time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def must_run(self) -> None:
        """FailureError with what it said, if it has ended."""
        if self._process.poll() is not None:
            raise FailureError(
                f"{self._name} ended with status {self._process.returncode}: {self.said()}"
            )

    def said(self) -> str:
        """Its output, or else what it said instead of any."""
        return "".join(path.read_text(errors="replace") for path in self._paths)


@dataclass(frozen=True)
class Said:
    """What a tool said until it ended well."""

    stdout: str
    stderr: str
    begin: float  # s, CLOCK_MONOTONIC
    wall: float  # s since the epoch
    seconds: float  # that it ran


@dataclass(frozen=True)
class Tool:
    """A tool by the name of its program, in the version that the image has."""

    program: str
    version: str  # as it is said
    known: str  # the version of which the output is known

    @classmethod
    def find(cls, program: str, family: str, known: str, *, ask: Sequence[str]) -> Self:
        """Asks for its version, itself or the distribution. FailureError where it is not there."""
        if shutil.which(program) is None:
            raise lacking(program, family)
        version = f"{program}, of an unknown version"
        with contextlib.suppress(OSError):
            done = subprocess.run(
                ask, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
            )
            said = (done.stdout.strip() or done.stderr.strip()).splitlines()
            version = " ".join(said[0].split()) if said and not done.returncode else version
        return cls(program, version, known)

    def run(self, command: Sequence[str], folder: Path) -> Said:
        """Runs it to its end in the folder. OutputError with what it said where it fails."""
        begin, wall = time.monotonic(), time.time()
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
        )
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            status = f"ended with status {done.returncode}"
            words = _words(done.stderr) or _words(done.stdout) or "it said nothing"
            raise OutputError(f"{self.version}: `{' '.join(command)}` {status}: {words}")
        return Said(done.stdout, done.stderr, begin, wall, seconds)

    def must_not_complain(self, said: Said) -> None:
        """For a tool whose status says nothing: OutputError with what it complained of."""
        if words := _words(said.stderr):
            raise OutputError(f"{self.version}: {words}")

    def text(self, said: str) -> Text:
        """Its output, to be read."""
        return Text(self.version, self.known, said)


@dataclass(frozen=True)
class Text:
    """Output in lines, of which each figure is found by a pattern."""

    version: str
    known: str
    said: str
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", self.said.splitlines())

    def within(self, title: str, end: str = "") -> Text:
        """The lines after the one that begins with `title`, to the next that begins with `end`;
        where that is empty, to the next line that is not indented."""
        at = next((n for n, line in enumerate(self.lines) if line.startswith(title)), None)
        if at is None:
            raise self.lacks(title)
        rest = self.lines[at + 1 :]
        over = [n for n, line in enumerate(rest) if _ends(line, end)]
        return Text(self.version, self.known, "\n".join(rest[: over[0]] if over else rest))

    def numbers(self, what: str, pattern: str) -> tuple[float, ...]:
        """The groups of the pattern, in the first line that has it. OutputError without one.

        `what` is how a person calls that line.
        """
        for line in self.lines:
            match = re.search(pattern, line)
            if match:
                return tuple(self._number(group, line) for group in match.groups())
        near = next((line for line in self.lines if what.lower() in line.lower()), "")
        raise self.lacks(what, near)

    def number(self, what: str, pattern: str) -> float:
        """The one group of the pattern."""
        (found,) = self.numbers(what, pattern)
        return found

    def _number(self, group: str, line: str) -> float:
        try:
            return float(group)
        except (TypeError, ValueError):
            raise self.lacks("a number", line) from None

    def lacks(self, what: str, line: str = "") -> OutputError:
        """The error where a line is not there, or says something else."""
        if line:
            given = line.strip()
        else:
            last = next((line for line in reversed(self.lines) if line.strip()), "")
            given = f"no such line; the last is {last.strip()!r}" if last else "no output"
        return OutputError(
            f"{self.version}: its output must have the line {what!r}; given: "
            f"{given[:MOST_SHOWN]}. Known is the output of {self.known}"
        )


def from_json(version: str, text: str) -> Any:
    """The document that a tool said. OutputError with the line at which it is no JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        lines = text.splitlines() or [""]
        line = lines[min(error.lineno, len(lines)) - 1][:MOST_SHOWN]
        raise OutputError(
            f"{version}: its output must be JSON; given, in line {error.lineno}: {line!r}"
        ) from error


class Document:
    """Looks keys up and names those that are not there, or are something else."""

    def __init__(self, version: str, known: str, document: Any) -> None:
        """`known` is the version of which the output is known."""
        self._version, self._known, self._document = version, known, document

    def get(self, *path: str | int) -> Any:
        """What stands there. OutputError."""
        found = self._document
        for key in path:
            try:
                found = found[key]
            except (KeyError, IndexError, TypeError):
                raise self.error(path, "it is missing") from None
        return found

    def error(self, path: Sequence[str | int], what: str) -> OutputError:
        """The error where a key is not what it must be."""
        return OutputError(
            f"{self._version}: its output must have the key {'.'.join(map(str, path))}: {what}. "
            f"Known is the output of {self._known}"
        )

    def text(self, *path: str | int) -> str:
        """A text. OutputError."""
        found = self.get(*path)
        if not isinstance(found, str):
            raise self.error(path, f"it must be text; given: {found!r}"[:MOST_SHOWN])
        return found

    def number(self, *path: str | int) -> float:
        """A finite number, at least 0. OutputError."""
        found = self.get(*path)
        right = isinstance(found, int | float) and not isinstance(found, bool)
        if not right or not math.isfinite(found) or found < 0:
            raise self.error(
                path, f"it must be a number, at least 0; given: {found!r}"[:MOST_SHOWN]
            )
        return float(found)


def _words(said: str) -> str:
    """What went wrong stands in the first line, before the usage, or at the end, after a report."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " / ".join(lines[:1] + lines[1:][-2:])


def lacking(program: str, family: str) -> FailureError:
    """The error where the image does not have the tool."""
    return FailureError(
        f"{program} is not in the image: requirements/images/{family}.yml must name its package"
    )


def tell_steps(context: Context, said: Said, items: float, seconds: float | None = None) -> None:
    """One measured step: all that the tool did, in the last `seconds` of its run.

    What came before, from the mark on, is a step of the warm-up: files, its start, its own warm-up.
    """
    took = said.seconds if seconds is None else min(seconds, said.seconds)
    late = said.seconds - took
    begin = context.marks["first_step_begin"]
    before = said.begin + late - begin
    rows = [("measured", said.begin + late, said.wall + late, round(items), took)]
    if before > 0:
        rows.insert(0, ("warmup", begin, said.wall + late - before, 0, before))
    for number, (phase, mono, wall, count, lasted) in enumerate(rows, 1):
        context.steps.add((phase, number, 0, mono, wall, count, None, 0.0, lasted, 0.0, lasted))


def _ends(line: str, end: str) -> bool:
    return line.startswith(end) if end else bool(line.strip()) and not line[:1].isspace()
