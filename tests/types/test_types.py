"""All types are stated and hold, with the settings in pyproject.toml."""

from __future__ import annotations

from tests.conftest import finds_nothing


def test_types_hold() -> None:
    finds_nothing("mypy")
