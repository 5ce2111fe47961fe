"""What is shared on a machine is kept while a run uses it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from strata.host import lease, uses

HERE = {"host": socket.gethostname(), "pid": os.getpid(), "start": lease.start_time(os.getpid())}
DEAD = {**HERE, "start": 1}
ELSEWHERE = {"host": "elsewhere", "pid": 1, "start": 1}


@pytest.fixture(autouse=True)
def leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "folder", lambda: tmp_path)
    monkeypatch.setattr(lease, "ROOT", tmp_path)
    monkeypatch.setattr(lease, "SHARED", tmp_path)


@pytest.mark.parametrize(
    ("holder", "leased_by", "lives"),
    [
        (HERE, None, True),
        (DEAD, None, False),
        (ELSEWHERE, None, False),
        (ELSEWHERE, ELSEWHERE, True),
        (ELSEWHERE, HERE, False),
    ],
)
def test_a_use_ends_with_its_run(
    tmp_path: Path, holder: dict[str, Any], leased_by: dict[str, Any] | None, lives: bool
) -> None:
    if leased_by:
        lease.acquire("run", leased_by)
    uses.note(["image", "archive"], holder)
    uses.note(["image"], holder)
    assert uses.living() == ({"image", "archive"} if lives else set())
    uses.forget_dead()
    assert len(list((tmp_path / "uses").iterdir())) == (2 if lives else 0)


def test_what_two_runs_use_is_kept_for_the_one_that_lives() -> None:
    uses.note(["image"], DEAD)
    uses.note(["image"], HERE)
    uses.forget_dead()
    assert uses.living() == {"image"}


def test_nothing_is_used_where_no_run_was() -> None:
    assert uses.living() == set()
    uses.forget_dead()
