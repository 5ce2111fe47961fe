"""What records say of the conditions of their trials, and which of what they say can be used.

A trial that contradicts the plan or itself is set aside and named; the others stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schema import documents as schema

# What is computed, and by how much two arms may differ in it: rounding is in another order where
# threads are, and grows from step to step.
COMPUTED = {"parameters": 0.0, "flop_per_image": 0.0, "loss_first": 0.01, "loss_last": 0.1}


def facts(record: schema.Record) -> dict[str, Any]:
    """The conditions of a trial, flat.

    `reported.` is from the program, `host.` what had changed on its host, `computed.` its work.
    """
    found: dict[str, Any] = {"hosts": ", ".join(record.hosts)}
    # Of a limit that the experiment states, both arms know; any other is somebody else's.
    if record.levels.get("quota") is None and any(map(_is_held_back, record.flags)):
        found["held_back"] = True
    found["dataset"] = record.dataset.digest if record.dataset else ""
    found |= dict(_flat("reported", record.workload.get("environment")))
    # Which CPUs a duet gives is the slot's; how many there are is the trial's.
    if record.duet and isinstance(found.get("reported.cpus"), list):
        found["reported.cpus"] = len(found["reported.cpus"])
    found |= {f"host.{item.key}": item.now for item in record.drift}
    known = record.metrics
    found |= {f"computed.{name}": known[name].value for name in COMPUTED if name in known}
    return found


def _is_held_back(flag: schema.Flag) -> bool:
    """By a limit on its CPU time, as its control group has counted; CPUs that were too hot bear the
    same flag."""
    return flag.name == "throttled" and "CPU limit" in flag.detail


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(f"{name}.{key}", part)
    elif value is not None:
        yield name, value


def sound(
    records: list[schema.Record], run: schema.Run, plan: schema.Plan
) -> tuple[list[schema.Record], list[str]]:
    """The records that can be used, without measures in a wrong unit; and what was set aside."""
    planned = {t.trial: (slot, t) for slot in plan.slots for t in slot.trials}
    kept, aside = [], []
    for record in records:
        why = _contradiction(record, planned.get(record.trial))
        if why:
            aside.append(f"{record.trial}, {why}")
        else:
            kept.append(record)
    units = _units(kept, run)
    for record in kept:
        for name, measure in list(record.metrics.items()):
            unit = units[str(record.levels.get("workload")), name]
            if measure.unit != unit:
                del record.metrics[name]
                said = f"it is in {measure.unit!r}, and this metric is in {unit or 'several units'}"
                aside.append(f"{name} of {record.trial}, since {said}")
    return kept, aside


def _contradiction(
    record: schema.Record, planned: tuple[schema.Slot, schema.PlannedTrial] | None
) -> str:
    """How a record contradicts the plan or itself, or ''."""
    if planned is None:
        return "since the plan has no such trial"
    slot, trial = planned
    if record.cell != trial.cell or record.levels != trial.levels:
        return "since the plan has other levels for it"
    if sorted(record.hosts) != sorted(slot.hosts):
        return f"since it ran on {', '.join(record.hosts)}, and was planned on other hosts"
    if record.clock.finished < record.clock.launched:
        return "since it finished before it was launched"
    if record.status == "ok" and not record.image.digest:
        return "since it does not say which image it ran"
    return ""


def _units(records: list[schema.Record], run: schema.Run) -> dict[tuple[str, str], str]:
    """The unit of each metric of a workload: what all records say, or else what was declared.

    '' where they disagree on a metric that nobody declared.
    """
    said: dict[tuple[str, str], set[str]] = {}
    for record in records:
        for name, measure in record.metrics.items():
            said.setdefault((str(record.levels.get("workload")), name), set()).add(measure.unit)
    declared = {
        (workload, metric.name): metric.unit
        for workload, entry in run.workloads.items()
        for metric in entry.metrics
    }
    return {
        key: next(iter(units)) if len(units) == 1 else declared.get(key, "")
        for key, units in said.items()
    }
