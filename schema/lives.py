"""When what providers made was asked for, active, reached and gone: lives.json.

`docs/results.md` says what each moment is. It is a document of a run, with its schema, and the only
one that goes on after the run: hosts are taken away later.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from .documents import Document, Versioned, parse, read

FILE = "lives.json"


def _moment(text: str) -> str:
    if text:
        datetime.fromisoformat(text)  # raises ValueError
    return text


# In UTC, ISO 8601; '' where nobody has told it, or it has not come yet.
Moment = Annotated[str, AfterValidator(_moment)]


class Life(Document):
    """Of one instance of a host."""

    MOMENTS: ClassVar = ("asked", "active", "reached", "leaving", "gone")
    # How long something took: the moments that it leads from and to, by the name of the latter.
    SPANS: ClassVar = {
        "active": ("asked", "active"),
        "reached": ("asked", "reached"),
        "gone": ("leaving", "gone"),
    }

    host: str
    provider: str
    instance: str
    asked: Moment = ""
    active: Moment = ""
    reached: Moment = ""
    leaving: Moment = ""
    gone: Moment = ""

    def seconds(self, span: str) -> float | None:
        """Of one of SPANS; None where one of its moments is not known."""
        told = [getattr(self, moment) for moment in self.SPANS[span]]
        if not all(told):
            return None
        first, last = map(datetime.fromisoformat, told)
        return (last - first).total_seconds()


class Lives(Versioned):
    lives: list[Life]


def validate_lives(document: dict[str, Any]) -> Lives:
    return parse(Lives, document, FILE)


def read_lives(run: Path) -> list[Life]:
    """Those of a run; none where all of its hosts existed. Raises SchemaError."""
    path = run / FILE
    return read(Lives, path).lives if path.exists() else []
