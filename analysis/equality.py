"""The equality gate: what the two arms of a comparison differ in, beside what is compared.

A difference in anything that is no factor may be the cause of what is found. It is looked for in
each pair, in what the programs themselves reported, in what changed on their hosts, in what they
computed, and in how their trials ended. What is found is a confound, and is named wherever the
answer stands. Unequal images and data are refused before (`load.check_digests`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from schema.fingerprint import field, unobserved

from . import disturbed
from .conditions import COMPUTED
from .load import Loaded, canonical
from .metrics import DASH, Metric
from .pairing import Arm, arms

COLUMNS = ["case", "arm", "short", "cell", "what", "ours", "baseline", "pairs"]
# What a difference in a level explains: the beginnings of the facts that follow from it.
_SPREAD = ("hosts", "host.", "reported.threads", "reported.cpus", "computed.loss")
_CPUS = ("reported.threads", "reported.cpus", "reported.quota")
_FRAMEWORK = tuple(
    f"reported.{name}"
    for name in ("tensorflow", "jax", "keras", "numpy", "blas", "onednn", "threads", "devices")
)
EXPLAINED: dict[str, tuple[str, ...]] = {
    "substrate": ("hosts", "host.virtualisation", "host.accelerator"),
    **dict.fromkeys(("cpus", "quota", "numa"), _CPUS),
    **dict.fromkeys(("distribution", "workers", "servers", "placement"), _SPREAD),
    **dict.fromkeys(("intra_op_threads", "inter_op_threads"), ("reported.threads",)),
    **dict.fromkeys(("device", "gpus"), ("reported.devices", *_CPUS)),
    "framework": _FRAMEWORK,
}
# Levels that leave alone what is computed; any other may change it.
SAME_WORK = {"substrate", "runtime", "network", "label", "cpus", "memory", "numa", "quota",
             "beside", "distribution", "workers", "servers", "placement",
             "ends", "through"}  # fmt: skip
LABELS = {
    "hosts": "hosts",
    "reported.tensorflow": "TensorFlow",
    "reported.keras": "Keras",
    "reported.numpy": "NumPy",
    "reported.python": "Python",
    "reported.glibc": "glibc",
    "reported.blas": "BLAS",
    "reported.onednn": "oneDNN",
    "reported.onednn_isa": "highest ISA of oneDNN",
    "reported.isa": "ISA as the program sees it",
    "reported.cpus": "CPUs of the program",
    "reported.quota": "CPU quota of the program",
    "reported.devices": "devices",
    "dataset": "dataset",
    "held_back": "held back by a CPU limit that nobody stated",
    "ended": "failed or void trials",
}


def confounds(loaded: Loaded, trials: pd.DataFrame, metrics: Sequence[Metric]) -> pd.DataFrame:
    """A row for each arm and thing that it differs from its baseline in (COLUMNS).

    `trials` are those of `matching.assign`; `pairs` says in how many of the pairs it does.
    """
    rows = []
    for arm in arms(trials):
        names = {key: getattr(arm, key) for key in ("case", "arm", "short", "cell")}
        found = [*_of_pairs(loaded, trials, arm), *_of_ends(trials, arm)]
        found += _of_metrics(trials, arm, metrics)
        rows += [{**names, **row} for row in found]
    return pd.DataFrame(rows, columns=COLUMNS)


def told(row: Mapping[str, Any]) -> str:
    """A confound as a sentence without its end."""
    where = row["short"] if row["case"] == "all" else f"{row['short']}, {row['case']}"
    return f"{where}: {row['what']} {row['ours']} against {row['baseline']} ({row['pairs']})"


def _of_pairs(loaded: Loaded, trials: pd.DataFrame, arm: Arm) -> Iterator[dict[str, Any]]:
    names, levels = trials["trial"].to_list(), trials["levels"].to_list()
    found: dict[str, list[tuple[Any, Any]]] = {}
    for ours, theirs in arm.pairs:
        factors = _differing(levels[ours], levels[theirs])
        sides = [_known(loaded, names[at]) for at in (ours, theirs)]
        one_place = sides[0]["hosts"] == sides[1]["hosts"]
        for key in sorted({*sides[0], *sides[1]}):
            both = (sides[0].get(key), sides[1].get(key))
            alike = one_place if any(map(unobserved, both)) else _alike(key, *both)
            if not alike and not _explained(key, factors):
                found.setdefault(key, []).append(both)
    for key, values in found.items():
        yield {
            "what": label(key),
            "ours": _text(values[0][0]),
            "baseline": _text(values[0][1]),
            "pairs": f"in {len(values)} of {len(arm.pairs)} pairs",
        }


def _known(loaded: Loaded, trial: str) -> dict[str, Any]:
    """The facts of a trial, with those of its hosts as they were then."""
    own = loaded.facts[trial]
    hosts = [loaded.hosts.get(host, {}) for host in str(own["hosts"]).split(", ")]
    keys = sorted({key for values in hosts for key in values})
    whole = {f"host.{key}": [values.get(key) for values in hosts] for key in keys}
    return {**{key: _one(values) for key, values in whole.items()}, **own}


def _one(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def _differing(ours: str, theirs: str) -> set[str]:
    """The levels in which two cells differ: the factors of their comparison."""
    left, right = json.loads(ours), json.loads(theirs)
    return {name for name in {*left, *right} if left.get(name) != right.get(name)}


def _explained(key: str, factors: set[str]) -> bool:
    if key.startswith("computed.") and not factors <= SAME_WORK:
        return True
    return any(key.startswith(start) for name in factors for start in EXPLAINED.get(name, ()))


def _alike(key: str, ours: Any, theirs: Any) -> bool:
    if key.startswith("host.") and field(key.removeprefix("host.")).impact == "allowed":
        return True
    if key == "reported.quota" and (ours is None or theirs is None):
        return True  # from some places a program cannot see the limit that it is under
    kind, _, name = key.partition(".")
    if kind == "computed" and ours is not None and theirs is not None:
        return bool(abs(ours - theirs) <= COMPUTED[name] * max(abs(ours), abs(theirs)))
    return canonical(ours) == canonical(theirs)


def _of_ends(trials: pd.DataFrame, arm: Arm) -> Iterator[dict[str, Any]]:
    """Trials that did not end well: those that are left of such an arm may be its better ones.

    Not those that the rule on disturbed trials voided: it never looks at how a trial ended.
    """
    ended = (trials["status"] != "ok") & (trials["cause"] != disturbed.CAUSE)
    ours = (trials["cell"] == arm.cell) & ~trials["is_reference"]
    # A cell is in several duets: of what it is compared with those beside this arm.
    duets = set(trials.loc[ours, "duet"]) - {""}
    own = trials["duet"].isin(duets) if duets else trials["cell"] == arm.cell_baseline
    theirs = trials["is_reference"] & own
    measured = trials["role"] == "measured"
    lost = [trials[side & measured & ended] for side in (ours, theirs)]
    if len(lost[0]) != len(lost[1]):
        yield {
            "what": LABELS["ended"],
            **{
                side: ", ".join([str(len(one)), *sorted({str(c) for c in one["cause"]} - {""})])
                for side, one in zip(("ours", "baseline"), lost, strict=True)
            },
            "pairs": f"of {arm.planned} planned",
        }


def _of_metrics(
    trials: pd.DataFrame, arm: Arm, metrics: Sequence[Metric]
) -> Iterator[dict[str, Any]]:
    """Metrics that are compared and that only one arm has."""
    if not arm.trials or not arm.baseline:
        return
    for metric in metrics:
        ours, theirs = arm.has(trials, metric.name)
        if metric.better and ours != theirs:
            said = {True: "measured", False: "missing"}
            yield {
                "what": metric.label,
                "ours": said[ours],
                "baseline": said[theirs],
                "pairs": f"of {len(arm.pairs)} pairs",
            }


def label(key: str) -> str:
    """What a fact is called for people."""
    kind, _, name = key.partition(".")
    if kind == "host":
        return field(name).label
    return LABELS.get(key, name.replace("_", " ").replace(".", ": ") or key)


def _text(value: Any) -> str:
    if value is None or value == "":
        return DASH
    return value if isinstance(value, str) else json.dumps(value)
