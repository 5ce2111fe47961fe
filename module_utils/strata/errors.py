"""The one way in which Strata says no."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Protocol


class Refused(ValueError):  # noqa: N818 - it reads as what happens: an input is refused
    """An input that cannot be accepted: the rule, an example, what was given, what to do next."""

    def __init__(self, rule: str, *, example: str = "", given: str = "", then: str = "") -> None:
        self.rule, self.example, self.given, self.then = rule, example, given, then
        parts = [("", rule), ("example", example), ("given", given), ("next", then)]
        super().__init__("\n".join(f"{k}: {v}" if k else v for k, v in parts if v))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the known word nearest to `name`, or lists all of them."""
    known = list(known)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


def said(error: BaseException) -> str:
    """What went wrong, in a line: of a cluster's answer, which has a JSON body, its own words."""
    if body := getattr(error, "body", None):
        try:
            return str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            return str(getattr(error, "reason", "")) or type(error).__name__
    return " ".join(str(error).split())[:400] or type(error).__name__


class Fails(Protocol):
    def fail_json(self, msg: str) -> Any:
        """Leave with a message; that of AnsibleModule does not return."""


@contextlib.contextmanager
def failing(module: Fails, *others: type[Exception]) -> Iterator[None]:
    """What is refused within ends the module with its text instead of a trace.

    So do `others`, where a library that the module uses has errors of its own.
    """
    expected: tuple[type[Exception], ...] = (Refused, *others)
    try:
        yield
    except expected as error:
        module.fail_json(msg=str(error))
