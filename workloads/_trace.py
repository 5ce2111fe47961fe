"""A trace by TensorFlow's profiler, and the copies between host and device that are in it.

The trace is kept as a file of the trial, for TensorBoard and the like. The copies are those that
the profiler saw on the GPU: events with `memcpy_details`, in the planes of GPUs.
"""

import gzip
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workloads._declare import Metric
from workloads._output import Context, FailureError

FILE = "trace.xplane.pb.gz"
MOST_BYTES = 4 * 2**20  # of it; a larger one is not kept
GPU = "/device:GPU:"
DETAILS = "memcpy_details"
SIZE = re.compile(r"\bsize:(\d+)\b")
# The events of the profiler, by where a copy goes from and to: host, device.
WAYS = {"MemcpyH2D": "h2d", "MemcpyD2H": "d2h", "MemcpyD2D": "d2d", "MemcpyP2P": "d2d"}
METRICS = tuple(
    metric
    for way, words in (("h2d", "to the device"), ("d2h", "from the device"), ("d2d", "on devices"))
    for metric in (
        Metric(f"{way}_time", f"Time of copies {words}", "s/step", "lower"),
        Metric(f"{way}_bytes", f"Bytes copied {words}", "bytes/step"),
        Metric(f"{way}_copies", f"Copies {words}", "copies/step"),
    )
)


@dataclass
class Copies:
    """All that go the same way."""

    count: int = 0
    size: int = 0  # bytes
    seconds: float = 0.0


def take(step: Callable[[], Any], count: int, context: Context) -> None:
    """Traces that many steps, keeps the trace, and tells of the copies in a step."""
    from tensorflow import profiler  # noqa: PLC0415  heavy

    folder = context.out / "profile"
    profiler.experimental.start(str(folder))
    try:
        for _ in range(count):
            step()
    finally:
        profiler.experimental.stop()
    (found,) = folder.rglob("*.xplane.pb")
    raw = found.read_bytes()
    shutil.rmtree(folder)
    tell(raw, count, context)


def tell(raw: bytes, count: int, context: Context) -> None:
    """Keeps a trace of that many steps, and says what was copied in one."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2  # noqa: PLC0415

    _keep(raw, context)
    _tell(xplane_pb2.XSpace.FromString(raw), count, context)


def _keep(raw: bytes, context: Context) -> None:
    packed = gzip.compress(raw, mtime=0)
    if len(packed) <= MOST_BYTES:
        (context.out / FILE).write_bytes(packed)
    else:
        context.flag(
            "trace_not_kept",
            f"the trace has {len(packed)} bytes, more than {MOST_BYTES}: trace fewer steps",
        )


def _tell(space: Any, count: int, context: Context) -> None:
    devices = [plane.name for plane in space.planes if plane.name.startswith(GPU)]
    context.environment["trace"] = {"steps": count, "devices": devices}
    if not devices:
        context.flag("no_device", "the trace has no GPU: nothing is known of copies to one")
        return
    found = copies(space)
    for way in dict.fromkeys(WAYS.values()):
        told = found.pop(way, Copies())
        context.scalar(f"{way}_time", told.seconds / count)
        context.scalar(f"{way}_bytes", told.size / count)
        context.scalar(f"{way}_copies", told.count / count)
    if found:
        context.flag("other_copies", f"copies that go no known way: {', '.join(sorted(found))}")


def copies(space: Any) -> dict[str, Copies]:
    """All of a trace (an XSpace), by their way, or their name where that tells no way.

    FailureError where the size of one is not told as it is known.
    """
    found: dict[str, Copies] = defaultdict(Copies)
    for plane in space.planes:
        if not plane.name.startswith(GPU):
            continue
        for line in plane.lines:
            for event in line.events:
                size = _size(plane, event)
                if size is not None:
                    name = plane.event_metadata[event.metadata_id].name
                    told = found[WAYS.get(name, name)]
                    told.count += 1
                    told.size += size
                    told.seconds += event.duration_ps / 1e12
    return dict(found)


def _size(plane: Any, event: Any) -> int | None:
    """Bytes of a copy; None of what is none."""
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == DETAILS:
            # A text that stands once in the plane, where there are many of it.
            told = stat.str_value or plane.stat_metadata[stat.ref_value].name
            match = SIZE.search(told)
            if match is None:
                raise FailureError(f"{DETAILS} of TensorFlow's trace tell no size: {told!r}")
            return int(match[1])
    return None
