"""Options of a workload: typed, checked in one place, on the controller and in the trial.

The checks are the standard library's, since the workload image has no pydantic. On a
controller that has it, `pydantic.TypeAdapter(Options)` runs exactly these checks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints


class BadInputError(ValueError):
    """What was given cannot be used; the message says the rule, an example, what was given."""


def nearest(name: str, known: Iterable[str]) -> str:
    """', did you mean X?' for the nearest known name, or nothing."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def refuse(name: str, rule: str, example: object, given: object) -> BadInputError:
    """The error of one option."""
    return BadInputError(f"{name}: {rule} (example: {name}: {example}); given: {given!r}")


@dataclass(frozen=True)
class Options:
    """Base of all options: strict about names and types."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Options from a mapping; BadInputError for an unknown name, type or rule broken."""
        cls.check(given)
        return cls(**given)

    @classmethod
    def check(cls, given: Mapping[str, Any]) -> None:
        """Refuses unknown names and wrong types; nothing is converted but int to float."""
        defaults = {f.name: f.default for f in fields(cls)}
        hints = get_type_hints(cls)
        for name, value in given.items():
            if name not in defaults:
                raise BadInputError(
                    f"{name}: unknown option{nearest(name, defaults)}; known: {', '.join(defaults)}"
                )
            rule = _mismatch(hints[name], value)
            if rule:
                raise refuse(name, rule, defaults[name], value)

    def at_least(self, minimum: float, *names: str) -> None:
        """Refuses an option below its minimum."""
        for name in names:
            value = getattr(self, name)
            if value < minimum:
                raise refuse(name, f"must be at least {minimum}", type(self).default(name), value)

    def at_most(self, maximum: float, *names: str) -> None:
        """Refuses an option above its maximum."""
        for name in names:
            value = getattr(self, name)
            if value > maximum:
                raise refuse(name, f"must be at most {maximum}", type(self).default(name), value)

    @classmethod
    def default(cls, name: str) -> object:
        """The default of an option, the example in errors."""
        return next(f.default for f in fields(cls) if f.name == name)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Puts `check` before pydantic's own validation, which alone would convert "2" to 2."""
        from pydantic_core import core_schema  # noqa: PLC0415  only pydantic calls this

        def before(given: Any) -> Any:
            if isinstance(given, Mapping):
                cls.check(given)
            return given

        return core_schema.no_info_before_validator_function(before, handler(source))


def _mismatch(kind: Any, value: object) -> str:
    """The rule that the value breaks, or nothing."""
    if get_origin(kind) is Literal:
        allowed = get_args(kind)
        if value in allowed:
            return ""
        return f"must be one of {', '.join(allowed)}{nearest(str(value), allowed)}"
    accepted = (int, float) if kind is float else (kind,)
    if isinstance(value, accepted) and (kind is bool or not isinstance(value, bool)):
        return ""
    return f"must be of type {kind.__name__}"
