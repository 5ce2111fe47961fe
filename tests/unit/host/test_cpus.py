"""The halves of a host: equal, disjoint, and no core in both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.host import cpus


def test_cpus_stand_by_their_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 4, 5})
    for cpu, text in {0: "0,4\n", 4: "0,4\n", 1: "1,5\n", 5: "1,5\n"}.items():
        place = tmp_path / f"cpu{cpu}/topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(text)
    assert cpus.cores(tmp_path) == [[0, 4], [1, 5], [2]], "of CPU 2 the kernel tells nothing"


def test_a_half_has_whole_cores() -> None:
    assert cpus.halves([[0], [1]]) == ("0", "1")
    assert cpus.halves([[0, 4], [1, 5], [2, 6], [3, 7]]) == ("0,1,4,5", "2,3,6,7")


@pytest.mark.parametrize(
    ("cores", "said"), [([[0]], "0"), ([[0, 1]], "0+1"), ([[0], [1], [2]], "0 1 2"),
                        ([[0, 2], [1]], "0+2 1")]
)  # fmt: skip
def test_what_has_no_equal_halves_is_refused(cores: list[list[int]], said: str) -> None:
    with pytest.raises(Refused) as refused:
        cpus.halves(cores)
    assert refused.value.given == f"its CPUs by core: {said}"
