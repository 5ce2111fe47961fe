"""From what a trial left behind to its record: pure functions, in the terms of docs/results.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .runtimes import Counters

SCHEMA = 1
# A share of the CPU time of the trial that a hypervisor may take before the trial is doubted.
STEAL_SHARE = 0.02
# What of a record the controller already knew when it ordered the trial.
ORDERED = ("run", "slot", "trial", "cell", "repetition", "role", "levels", "hosts")


def base(order: dict[str, Any], image: dict[str, str], dataset: dict[str, Any]) -> dict[str, Any]:
    """A record before anything ran."""
    levels = order["levels"]
    platform = "/".join(str(levels[part]) for part in ("substrate", "runtime", "network"))
    data = {key: dataset[key] for key in ("name", "digest", "origin")} if dataset else None
    return {
        "schema": SCHEMA,
        **{key: order[key] for key in ORDERED},
        "platform": platform,
        "status": "failed",
        "reason": None,
        "image": {"kind": image["kind"], "digest": image["digest"]},
        "dataset": data if levels.get("data") == "real" else None,
        "started": "",
        "clock": {"launched": 0.0, "finished": 0.0},
        "metrics": {},
        "phases": {},
        "flags": [],
        "drift": [],
        "workload": {},
    }


def read_result(out: Path) -> dict[str, Any]:
    """result.json of the workload. Raises ValueError when it is missing or not whole."""
    try:
        result = json.loads((out / "result.json").read_text())
    except FileNotFoundError:
        raise ValueError("the workload ended well but left no result.json") from None
    if not isinstance(result, dict) or not {"scalars", "marks"} <= set(result):
        raise ValueError("result.json has no scalars or no marks")
    return result


def read_steps(out: Path) -> str:
    """The whole lines of steps.jsonl; a line that a kill cut is left out."""
    path = out / "steps.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return "\n".join(line for line in lines if line.endswith("}"))


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
    measured: dict[str, tuple[float | None, str]] = {
        "elapsed": (elapsed, "s"),
        "startup": (found.get("startup"), "s"),
        "first_step": (found.get("first_step"), "s"),
        "cpu": (used.cpu, "s"),
        "memory_peak": (used.memory_peak, "bytes"),
    }
    host = {k: {"value": v, "unit": unit} for k, (v, unit) in measured.items() if v is not None}
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
    return [{"name": name, "detail": detail} for name, detail in found]
