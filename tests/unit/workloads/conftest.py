"""What all tests of workloads do at their end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from peers import STARTED


@pytest.fixture(autouse=True)
def what_was_started_has_ended() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop()()
