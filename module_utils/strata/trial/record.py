"""From what a trial left behind to its record: pure functions, in the terms of docs/results.md."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ..cell import Platform
from ..host.counters import Counters
from ..host.sampler import Sample, spent
from . import disturbance

SCHEMA = 4
# What is said of an image and of a dataset, here and in run.json.
IMAGE = ("family", "kind", "digest")
DATASET = ("name", "digest", "origin", "asked")
# What is measured of every trial, in the order of the page. The keys are those of
# `workloads._declare.Metric`, which hosts do not have.
METRICS: tuple[dict[str, Any], ...] = (
    {
        **{"name": "elapsed", "label": "Elapsed", "unit": "s", "better": "lower"},
        **{"headline": True, "combine": "max"},
    },
    {
        **{"name": "startup", "label": "Startup", "unit": "s", "better": "lower"},
        **{"headline": True, "combine": "max"},
    },
    {
        **{"name": "first_step", "label": "First step", "unit": "s", "better": "lower"},
        **{"combine": "max"},
    },
    {
        **{"name": "cpu", "label": "CPU time", "unit": "s", "better": "lower"},
        **{"combine": "total"},
    },
    # The CPU time of those who were not this trial, while it was measured. Each of its hosts has
    # its own, so that a trial of several hosts has the sum.
    {
        **{"name": "cpu_beside", "label": "CPU time beside it", "unit": "s", "better": ""},
        **{"combine": "total"},
    },
    {
        **{"name": "cpu_strata", "label": "CPU time of Strata", "unit": "s", "better": ""},
        **{"combine": "total"},
    },
    {
        **{"name": "cpu_platform", "label": "CPU time of the platform", "unit": "s"},
        **{"better": "lower", "combine": "total"},
    },
    {
        **{"name": "cpu_others", "label": "CPU time of others", "unit": "s", "better": ""},
        **{"combine": "total"},
    },
    # How fast the host was right before and after, outside of the platform: a covariate.
    {
        **{"name": "reference_before", "label": "Reference burst before", "unit": "bytes/s"},
        **{"better": "", "combine": "mean"},
    },
    {
        **{"name": "reference_after", "label": "Reference burst after", "unit": "bytes/s"},
        **{"better": "", "combine": "mean"},
    },
    {
        **{"name": "memory_peak", "label": "Peak memory", "unit": "bytes", "better": "lower"},
        **{"combine": "total"},
    },
)
# What is measured beside that where a trial has space to write to.
SCRATCH: dict[str, Any] = {
    **{"name": "scratch", "label": "Scratch space at the end", "unit": "bytes"},
    **{"combine": "total"},
}
BLOCK = 512  # bytes, of which `st_blocks` counts, whatever the file system's own are
OUTPUT_BYTES = 64 * 2**20  # far above the output of any workload
TRACE = "trace.xplane.pb.gz"  # of TensorFlow's profiler, where an experiment asks for it
TRACE_BYTES = 8 * 2**20
# What every step has beside its phase, each a number.
STEP_NUMBERS = ("mono", "items", "duration_s", "input_s", "compute_s")
# What of a record the controller already knew when it ordered the trial.
ORDERED = ("run", "slot", "trial", "cell", "repetition", "role", "levels", "hosts")


def base(order: dict[str, Any], image: dict[str, str], dataset: dict[str, Any]) -> dict[str, Any]:
    """A record before anything ran."""
    levels = order["levels"]
    data = {key: dataset.get(key) for key in DATASET} if dataset else None
    return {
        "schema": SCHEMA,
        **{key: order[key] for key in ORDERED},
        "platform": str(Platform.of(levels)),
        "status": "failed",
        "reason": None,
        "image": {key: image[key] for key in IMAGE},
        "dataset": data if levels.get("data") == "real" else None,
        "started": "",
        "clock": {"launched": 0.0, "finished": 0.0},
        "metrics": {},
        "phases": {},
        "flags": [],
        "drift": [],
        "disturbance": {},
        "workload": {},
        "attempt": 1,
        "beside": None,
        "duet": None,
        "members": [],
    }


def complete(
    document: dict[str, Any], result: dict[str, Any], rows: list[dict[str, Any]], used: Counters
) -> None:
    """Fill in phases, metrics and flags of a program that has ended."""
    clock = document["clock"]
    document["phases"] = phases(result.get("marks", {}), rows, clock["launched"], clock["finished"])
    document["metrics"] = metrics(result, document["phases"], used, clock)
    document["flags"] += result.get("flags", [])
    if used.throttled:
        detail = f"a CPU limit held it back in {used.throttled} periods"
        document["flags"].append({"name": "throttled", "detail": detail})
    document["workload"] = result


def tell_host(
    document: dict[str, Any],
    measured: Sequence[Sample],
    own: Collection[str],
    *,
    link: float | None = None,
    shared: bool = False,
) -> None:
    """Fill in who used this host's CPUs while the trial was measured, what disturbed it, and the
    doubts that this raises.

    `own` are the names of the trial's programs, `link` is what the cards can carry (bytes/s) where
    none of it is the trial's. `shared` says that the trial has other hosts on this machine, which
    counts what they use: who are others cannot be told there.
    """
    first, last = measured[0], measured[-1]
    found = spent(first, last, own)
    by_whom = {
        "cpu_beside": found.beside,
        "cpu_strata": found.strata,
        "cpu_platform": found.platform,
        "cpu_others": found.others,
    }
    known = {name: {"value": s, "unit": "s"} for name, s in by_whom.items() if s is not None}
    document["metrics"] |= known
    shares = disturbance.shares(measured, found, os.cpu_count() or 1, link)
    if shared:
        shares.pop("others", None)
    document["disturbance"] = shares
    document["flags"] += disturbance.flags(shares)
    slowed = last.host.throttled - first.host.throttled
    if slowed > 0:
        detail = f"the CPUs' counts of thermal throttling rose by {slowed}"
        document["flags"].append({"name": "throttled", "detail": detail})


def tell_reference(document: dict[str, Any], before: float, after: float) -> None:
    """Fill in how fast the host was right before and right after the slot (bytes/s)."""
    for name, value in (("reference_before", before), ("reference_after", after)):
        document["metrics"][name] = {"value": value, "unit": "bytes/s"}


def tell_filter(document: dict[str, Any], met: dict[str, Any]) -> None:
    """Fill in what rules of the packet filter its packets met."""
    if document["status"] == "ok":
        document["workload"].setdefault("environment", {})["packet_filter"] = met


def read_result(out: Path) -> dict[str, Any]:
    """result.json of the workload. Raises ValueError when it is missing, not whole or not sound."""
    text = _text(out / "result.json")
    if text is None:
        raise ValueError("the workload ended well but left no result.json")
    result = _parsed(text, "result.json")
    if not isinstance(result, dict):
        raise ValueError("result.json is no object")
    for name in ("scalars", "marks"):
        if not isinstance(result.get(name), dict):
            raise ValueError(f"result.json has no {name}")
    if not _are_flags(result.get("flags", [])):
        raise ValueError(f"result.json: flags are a name and a detail each: {result['flags']!r}")
    for name, scalar in result["scalars"].items():
        if not isinstance(scalar, dict) or not _is_number(scalar.get("value")):
            raise ValueError(f"result.json: scalar {name!r} has no number: {scalar!r}")
    for name, mark in result["marks"].items():
        if not _is_number(mark):
            raise ValueError(f"result.json: mark {name!r} is no number: {mark!r}")
    return result


def read_steps(out: Path) -> tuple[str, list[dict[str, Any]]]:
    """The whole lines of steps.jsonl, as text and parsed; a line that a kill cut is left out.

    Raises ValueError when a whole line is no step.
    """
    text = _text(out / "steps.jsonl") or ""
    # What stands after the last line end is a line that a kill cut, or nothing.
    lines = text.split("\n")
    if not lines[-1].endswith("}"):
        lines.pop()
    rows = [_parsed(line, f"steps.jsonl, line {number}") for number, line in enumerate(lines, 1)]
    for number, row in enumerate(rows, 1):
        if not _is_step(row):
            raise ValueError(
                f"steps.jsonl, line {number}: a step has its phase, and as numbers "
                + ", ".join(STEP_NUMBERS)
            )
    return "\n".join(lines), rows


def read_trace(out: Path) -> str:
    """A trace of the workload's, in base64; '' without one. Raises ValueError for a huge one."""
    content = _content(out / TRACE, TRACE_BYTES + 1) or b""
    if len(content) > TRACE_BYTES:
        raise ValueError(f"{TRACE} has more than {TRACE_BYTES} bytes")
    return base64.b64encode(content).decode()


def _is_step(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("phase"), str)
        and all(_is_number(row.get(name)) for name in STEP_NUMBERS)
    )


def _are_flags(given: Any) -> bool:
    return isinstance(given, list) and all(
        isinstance(flag, dict)
        and all(isinstance(flag.get(name), str) for name in ("name", "detail"))
        for flag in given
    )


def _text(path: Path) -> str | None:
    content = _content(path, OUTPUT_BYTES)
    return None if content is None else content.decode()


def _content(path: Path, most: int) -> bytes | None:
    """So many bytes of an ordinary file that the program wrote; None without one.

    The program owns the folder, and whoever reads here may read more than it: no links are
    followed, and a pipe is not waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(most)


def _parsed(text: str, where: str) -> Any:
    """JSON with finite numbers. Raises ValueError."""

    def finite(word: str) -> float:
        if not math.isfinite(float(word)):
            raise ValueError(f"{where}: {word[:40]} is no finite number")
        return float(word)

    def whole(word: str) -> int:
        finite(word)
        return int(word)

    try:
        return json.loads(text, parse_constant=finite, parse_float=finite, parse_int=whole)
    except RecursionError as error:
        raise ValueError(f"{where} is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error}") from error


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def probe_seconds(marks: dict[str, float]) -> float:
    return marks.get("probe_end", 0.0) - marks.get("probe_begin", 0.0)


def phases(
    marks: dict[str, float], steps: list[dict[str, Any]], launched: float, finished: float
) -> dict[str, float]:
    """Seconds of each phase; they add up to finished - launched. Empty without steps.

    Where all steps are measured, there is no first one of its own.
    """
    if "first_step_begin" not in marks or not steps:
        return {}
    measured = [step for step in steps if step["phase"] == "measured"]
    found = {
        "startup": marks["first_step_begin"] - launched,
        **({"first_step": steps[0]["duration_s"]} if steps[0]["phase"] == "warmup" else {}),
        "warmup": sum(step["duration_s"] for step in steps[1:] if step["phase"] == "warmup"),
        "input": sum(step["input_s"] for step in measured),
        "compute": sum(step["compute_s"] for step in measured),
        "probe": probe_seconds(marks),
    }
    found["teardown"] = max(0.0, finished - launched - sum(found.values()))
    return found


def metrics(
    result: dict[str, Any], found: dict[str, float], used: Counters, clock: dict[str, float]
) -> dict[str, dict[str, Any]]:
    """Every scalar of the workload, and what the host measured."""
    elapsed = clock["finished"] - clock["launched"] - probe_seconds(result.get("marks", {}))
    measured: dict[str, float | None] = {
        "elapsed": elapsed,
        "startup": found.get("startup"),
        "first_step": found.get("first_step"),
        "cpu": used.cpu,
        "memory_peak": used.memory_peak,
    }
    units = {metric["name"]: metric["unit"] for metric in METRICS}
    host = {k: {"value": v, "unit": units[k]} for k, v in measured.items() if v is not None}
    return {**result.get("scalars", {}), **host}


def space(folder: Path) -> dict[str, Any]:
    """What the files below a folder take of the disk, as a metric. They may be going meanwhile."""
    size = 0
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                size += os.lstat(Path(where, name)).st_blocks * BLOCK
    return {"value": size, "unit": SCRATCH["unit"]}
