"""Copies between host and device are summed from a trace as TensorFlow's profiler writes it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow.tsl.profiler.protobuf import xplane_pb2  # noqa: E402

from workloads import _trace  # noqa: E402
from workloads._output import Context, FailureError, StepLog  # noqa: E402

# A copy in the words of the profiler (cupti_collector.cc of TensorFlow's XLA).
TOLD = "kind_src:pageable kind_dst:device size:{} dest:0 async:1"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    with StepLog(tmp_path / "steps") as steps:
        yield Context("toy", tmp_path, steps, metrics=_trace.METRICS)


def trace(*events: tuple[str, str], plane: str = "/device:GPU:0") -> Any:
    """An XSpace of one plane; each event takes a second. Its texts are in it once."""
    space = xplane_pb2.XSpace()
    found = space.planes.add(name=plane)
    found.stat_metadata[1].name = "memcpy_details"
    found.stat_metadata[2].name = "kernel_details"
    line = found.lines.add(name="Stream #13(MemcpyH2D)")
    for number, (name, told) in enumerate(events, 10):
        found.event_metadata[number].name = name
        event = line.events.add(metadata_id=number, duration_ps=10**12)
        if told:
            found.stat_metadata[number].name = told
            event.stats.add(metadata_id=1, ref_value=number)
        else:
            event.stats.add(metadata_id=2, str_value="regs:32")
    return space


def test_copies_are_summed_by_their_way() -> None:
    space = trace(
        *[("MemcpyH2D", TOLD.format(size)) for size in (100, 28)],
        *[("MemcpyD2H", TOLD.format(4)), ("MemcpyD2D", TOLD.format(7))],
        *[("MemcpyP2P", TOLD.format(9)), ("MemcpyOther", TOLD.format(1)), ("kernel", "")],
    )
    assert _trace.copies(space) == {
        "h2d": _trace.Copies(2, 128, 2.0),
        "d2h": _trace.Copies(1, 4, 1.0),
        "d2d": _trace.Copies(2, 16, 2.0),
        "MemcpyOther": _trace.Copies(1, 1, 1.0),
    }


def test_what_is_on_no_gpu_is_no_copy() -> None:
    assert _trace.copies(trace(("MemcpyH2D", TOLD.format(1)), plane="/host:CPU")) == {}


def test_a_copy_whose_size_is_not_told_is_an_error_and_no_zero() -> None:
    with pytest.raises(FailureError, match="no size: 'bytes 12'"):
        _trace.copies(trace(("MemcpyH2D", "bytes 12")))


def test_a_real_trace_is_kept_as_it_is_and_of_a_cpu_tells_no_copies(
    tmp_path: Path, context: Context
) -> None:
    product = tf.function(tf.linalg.matmul, autograph=False)
    _trace.take(lambda: product(tf.ones([8, 8]), tf.ones([8, 8])), 3, context)
    kept = xplane_pb2.XSpace.FromString(gzip.decompress((tmp_path / _trace.FILE).read_bytes()))
    events = {m.name for plane in kept.planes for m in plane.event_metadata.values()}
    assert any("MatMul" in name for name in events), events
    assert (context.scalars, context.environment["trace"]) == ({}, {"steps": 3, "devices": []})
    assert [flag["name"] for flag in context.flags] == ["no_device"]


def test_a_trace_that_is_too_large_is_not_kept_and_its_copies_are_told(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = trace(("MemcpyH2D", TOLD.format(100)), ("MemcpyH2D", TOLD.format(100)))
    monkeypatch.setattr(_trace, "MOST_BYTES", 10)
    _trace.tell(space.SerializeToString(), 2, context)
    assert not (tmp_path / _trace.FILE).exists()
    assert [flag["name"] for flag in context.flags] == ["trace_not_kept"]
    found = {name: scalar["value"] for name, scalar in context.scalars.items()}
    assert (found["h2d_bytes"], found["h2d_copies"], found["h2d_time"]) == (100, 1, 1)
    assert (found["d2h_bytes"], found["d2d_copies"]) == (0, 0)
