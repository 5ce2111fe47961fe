"""The linters find nothing, with the settings in the checkout."""

from __future__ import annotations

import pytest

from tests.conftest import finds_nothing


@pytest.mark.parametrize(
    "command",
    ["ansible-lint --offline --strict", "ruff check .", "ruff format --check .",
     "yamllint --strict ."],
)  # fmt: skip
def test_it_finds_nothing(command: str) -> None:
    finds_nothing(*command.split())
