"""What differs between two runs, and what each difference means for comparing them."""

from __future__ import annotations

import json
from typing import Any, Literal

import pandas as pd

from schema.fingerprint import field, unobserved

from .equality import label
from .load import Loaded, usable

Kind = Literal["factor under test", "allowed", "confound"]
ABSENT = "–"  # noqa: RUF001
COLUMNS = ("key", "label", "left", "right", "kind")


def differences(left: Loaded, right: Loaded) -> pd.DataFrame:
    """All differences of two runs (columns: COLUMNS), confounds first.

    Platforms and workload levels that only one run has are under test; versions and testbeds are
    classed here, keys of the hosts' fingerprints by `strata.fingerprint.field`.
    """
    rows = _run_rows(left, right) + _level_rows(left, right) + _host_rows(left, right)
    rows += _reported_rows(left, right) + _unit_rows(left, right)
    order = {"confound": 0, "factor under test": 1, "allowed": 2}
    rows.sort(key=lambda row: (order[row["kind"]], row["key"]))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _run_rows(left: Loaded, right: Loaded) -> list[dict[str, Any]]:
    table: list[tuple[str, str, Any, Any, Kind]] = [
        *_image_rows(left, right),
        ("dataset", "dataset", _dataset(left), _dataset(right), "confound"),
        ("strata.version", "Strata", left.run.strata.version, right.run.strata.version, "confound"),
        ("strata.commit", "Strata's commit", left.run.strata.commit, right.run.strata.commit,
         "allowed"),
        ("experiment", "experiment", left.run.experiment_digest, right.run.experiment_digest,
         "allowed"),
        ("seed", "seed of the order", left.run.seed, right.run.seed, "allowed"),
        ("testbed", "testbed", left.run.testbed, right.run.testbed, "allowed"),
    ]  # fmt: skip
    return [_row(*entry) for entry in table if entry[2] != entry[3]]


def _image_rows(left: Loaded, right: Loaded) -> list[tuple[str, str, Any, Any, Kind]]:
    """The image of each workload that both runs have."""
    ours, theirs = (each.trials.groupby("workload")["image"].first() for each in (left, right))
    return [
        (f"image.{name}", f"workload image of {name}", ours[name], theirs[name], "confound")
        for name in sorted(set(ours.index) & set(theirs.index))
    ]


def _level_rows(left: Loaded, right: Loaded) -> list[dict[str, Any]]:
    names = sorted({name for loaded in (left, right) for name in _level_names(loaded)})
    arms = [[_levels(loaded.trials, name) for name in names] for loaded in (left, right)]
    return [
        _row(f"level.{name}", name, ours, theirs,
             "factor under test")
        for name, ours, theirs in zip(names, *arms, strict=True)
        if ours != theirs
    ]  # fmt: skip


def _reported_rows(left: Loaded, right: Loaded) -> list[dict[str, Any]]:
    """What the programs of two runs reported otherwise; a run may have several values of each."""
    ours, theirs = _reported(left), _reported(right)
    return [
        _row(key, label(key), "; ".join(ours.get(key, [])) or ABSENT,
             "; ".join(theirs.get(key, [])) or ABSENT, "confound")
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    ]  # fmt: skip


def _reported(loaded: Loaded) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for trial in usable(loaded.trials)["trial"]:
        for key, value in loaded.facts[trial].items():
            if key.startswith("reported."):
                found.setdefault(key, set()).add(_text(value))
    return {key: sorted(values) for key, values in found.items()}


def _unit_rows(left: Loaded, right: Loaded) -> list[dict[str, Any]]:
    """Metrics that two runs give in different units; they are not compared."""
    ours, theirs = ({m.name: m.unit for m in run.metrics} for run in (left, right))
    return [
        _row(f"unit.{name}", f"unit of {name}", ours[name], theirs[name], "confound")
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    ]


def _host_rows(left: Loaded, right: Loaded) -> list[dict[str, Any]]:
    keys = sorted({k for run in (left, right) for values in run.hosts.values() for k in values})
    rows = []
    for key in keys:
        ours, theirs = _values(left, key), _values(right, key)
        every = [values.get(key) for run in (left, right) for values in run.hosts.values()]
        if ours != theirs or any(map(unobserved, every)):
            known = field(key)
            kind: Kind = "allowed" if known.impact == "allowed" else "confound"
            rows.append(_row(key, known.label, ours, theirs, kind))
    return rows


def _row(key: str, label: str, left: Any, right: Any, kind: Kind) -> dict[str, Any]:
    return {"key": key, "label": label, "left": _text(left), "right": _text(right), "kind": kind}


def _dataset(loaded: Loaded) -> str | None:
    return loaded.run.dataset.digest if loaded.run.dataset else None


def _level_names(loaded: Loaded) -> set[str]:
    return {str(name) for text in loaded.trials["levels"] for name in json.loads(text)}


def _levels(frame: pd.DataFrame, name: str) -> str:
    if name not in frame:
        return ABSENT
    return ", ".join(sorted({str(value) for value in frame[name].dropna()})) or ABSENT


def _values(loaded: Loaded, key: str) -> str:
    """The distinct values of a key over the hosts of a run, which need not bear the same names."""
    found = {_text(values[key]) for values in loaded.hosts.values() if key in values}
    return "; ".join(sorted(found)) or ABSENT


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
