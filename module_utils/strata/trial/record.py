"""From what a trial left behind to its record: pure functions, in the terms of docs/results.md."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

from ..host.counters import Counters

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
    {
        **{"name": "memory_peak", "label": "Peak memory", "unit": "bytes", "better": "lower"},
        **{"combine": "total"},
    },
)
# A share of the CPU time of the trial that a hypervisor may take before the trial is doubted.
STEAL_SHARE = 0.02
OUTPUT_BYTES = 64 * 2**20  # far above the output of any workload
# What every step has beside its phase, each a number.
STEP_NUMBERS = ("mono", "items", "duration_s", "input_s", "compute_s")
# What of a record the controller already knew when it ordered the trial.
ORDERED = ("run", "slot", "trial", "cell", "repetition", "role", "levels", "hosts")


def base(order: dict[str, Any], image: dict[str, str], dataset: dict[str, Any]) -> dict[str, Any]:
    """A record before anything ran."""
    levels = order["levels"]
    platform = "/".join(str(levels[part]) for part in ("substrate", "runtime", "network"))
    data = {key: dataset.get(key) for key in DATASET} if dataset else None
    return {
        "schema": SCHEMA,
        **{key: order[key] for key in ORDERED},
        "platform": platform,
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
        "workload": {},
        "attempt": 1,
        "beside": None,
        "members": [],
    }


def complete(
    document: dict[str, Any],
    result: dict[str, Any],
    rows: list[dict[str, Any]],
    used: Counters,
    sampler: Any,
) -> None:
    """Fill in phases, metrics and flags; `sampler` is a `usage.Sampler` that was stopped."""
    clock = document["clock"]
    seconds = clock["finished"] - clock["launched"]
    document["phases"] = phases(result.get("marks", {}), rows, clock["launched"], clock["finished"])
    document["metrics"] = metrics(result, document["phases"], used, clock)
    document["flags"] += result.get("flags", [])
    document["flags"] += flags(sampler.first, sampler.last, used, os.cpu_count() or 1, seconds)
    document["workload"] = result


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
    """An ordinary file that the program wrote; None without one.

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
        return file.read(OUTPUT_BYTES).decode()


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
    """Seconds of each phase; they add up to finished - launched. Empty without steps."""
    if "first_step_begin" not in marks or not steps:
        return {}
    measured = [step for step in steps if step["phase"] == "measured"]
    found = {
        "startup": marks["first_step_begin"] - launched,
        "first_step": steps[0]["duration_s"],
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


def flags(
    before: Any, after: Any, used: Counters, cores: int, seconds: float
) -> list[dict[str, str]]:
    """Doubts that the host's counters raise; `before` and `after` are `usage.Totals`."""
    found = []
    share = (after.steal - before.steal) / max(cores * seconds, 1e-9)
    if share > STEAL_SHARE:
        found.append(("steal", f"{share:.1%} of the CPU time went to other guests"))
    if after.swap > before.swap:
        found.append(("swap", f"{after.swap - before.swap:.0f} bytes swapped in or out"))
    if used.throttled:
        found.append(("throttled", f"a CPU limit held it back in {used.throttled} periods"))
    if after.throttled > before.throttled:
        times = after.throttled - before.throttled
        found.append(("throttled", f"the CPUs' counts of thermal throttling rose by {times}"))
    return [{"name": name, "detail": detail} for name, detail in found]
