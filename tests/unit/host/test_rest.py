"""A host that comes to rest, one that does not, and one that does later."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from strata.host import rest


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "TICK_S", 0.005)
    monkeypatch.setattr(rest, "QUIET_S", 0.02)


def using(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[float], float]) -> None:
    """All CPUs have been used for so many seconds each, at an instant from now."""
    begin, cores = time.monotonic(), os.cpu_count() or 1
    monkeypatch.setattr(rest, "_used", lambda _: cores * seconds(time.monotonic() - begin))


def test_a_quiet_host_is_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, lambda at: 0.02 * at)
    found = rest.come_to_rest(0.1, 60.0)
    assert found.rested and found.others < 0.1


def test_a_busy_host_is_waited_for_and_no_longer_than_it_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    using(monkeypatch, lambda at: at)
    found = rest.come_to_rest(0.1, 0.1)
    assert not found.rested and found.waited_s >= 0.1 and found.others > 0.1


def test_a_host_that_becomes_quiet_is_at_rest_then(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, lambda at: min(at, 0.2))
    found = rest.come_to_rest(0.1, 60.0)
    assert found.rested and found.waited_s >= 0.2


def test_what_is_used_is_read_from_this_host() -> None:
    before = rest._used([])
    sum(range(2_000_000))
    assert rest._used([]) >= before >= 0
    assert rest.come_to_rest(1.0, 60.0).rested
