"""What the trials of a run are described by: the metrics that its workloads declare, and those
that Strata measures itself. Runs on the controller only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from strata.trial import record

import workloads
from workloads._declare import Metric, check_names

from . import merge


def declared(names: Iterable[str], *, in_duets: bool = False) -> dict[str, dict[str, Any]]:
    """The key `workloads` of run.json: of each workload the unit of its items, and its metrics.

    Its own come first. Raises DeclarationError where two of them have one name.
    """
    return {name: _declared(name, in_duets=in_duets) for name in names}


def _declared(name: str, *, in_duets: bool) -> dict[str, Any]:
    workload = workloads.workload(name)
    metrics = [*workload.METRICS, *(Metric(**fields) for fields in record.METRICS)]
    if workload.WRITABLE:
        metrics.append(Metric(**record.SCRATCH))
    if workload.TOPOLOGY.shares:
        metrics += merge.metrics_of_clusters(str(workload.ITEMS))
    if in_duets:
        metrics = merge.metrics_of_duets(metrics, workload.ITEMS)
    check_names(name, metrics)
    return {
        "items": workload.ITEMS,
        "metrics": [dataclasses.asdict(metric) for metric in metrics],
    }
