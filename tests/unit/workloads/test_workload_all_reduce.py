"""Vectors are summed over workers: right, in as many steps by each, and told as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers import Process, clusters, start, until

import workloads
from workloads._options import BadInputError

pytest.importorskip("tensorflow")


@pytest.mark.parametrize(
    ("transport", "workers", "size", "sent"),
    [("strata", 3, 12, 16), ("tensorflow", 2, 1 << 16, 1 << 16), ("mpi", 3, 12, 16)],
)
def test_each_worker_sums_as_often_and_tells_how_long(
    tmp_path: Path, transport: str, workers: int, size: int, sent: int
) -> None:
    asked = {"transport": transport, "size": size, "steps": 4, "warmup_steps": 2}
    before = set(Path("/dev/shm").iterdir())
    members = [m.well() for m in start("all_reduce", tmp_path, asked, clusters("ring", workers))]
    for number, member in enumerate(members):
        rows, result = member.steps(), member.result()
        assert [row["items"] for row in rows] == 4 * [size]
        assert all(row["exchange_s"] == row["duration_s"] for row in rows)
        found = {name: scalar["value"] for name, scalar in result["scalars"].items()}
        assert found["latency_min"] <= found["latency"] <= found["latency_max"]
        # What each must send at least: two thirds of the vector twice, and a half of it twice.
        assert found["bus_bandwidth"] == pytest.approx(sent / found["latency"])
        assert result["cluster"]["bytes_per_step"] == size
        assert result["cluster"]["index"] == number
    # Beside those of other tests under way.
    until(lambda: not set(Path("/dev/shm").glob("mpich_*")) - before, "end of its shared memory")


def test_nccl_without_a_gpu_is_refused_by_its_name(tmp_path: Path) -> None:
    for member in start("all_reduce", tmp_path, {"transport": "nccl"}, clusters("ring", 2)):
        status, said = member.end()
        # Whoever is the second to look has heard of it from the first.
        assert status in (2, 75) and "transport: nccl needs a GPU" in said


def test_a_worker_alone_has_nothing_to_sum(tmp_path: Path) -> None:
    status, said = Process("all_reduce", tmp_path, {}).end()
    assert status == 2 and "between workers" in said


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"size": 6}, "whole float32"),
        ({"size": 2**30}, "at most"),
        ({"duration": 0.0}, "positive"),
        ({"transport": "ucx"}, "must be one of strata, tensorflow, mpi, nccl"),
    ],
)
def test_what_is_no_vector_is_refused(given: dict[str, int], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        workloads.options("all_reduce").parse(given)
