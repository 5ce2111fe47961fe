"""At which end a network costs what it costs: the client's, the server's, or between the two.

Four arms of one case tell, measured in the same rounds: both ends on the hosts' own network, both
on the network, the client alone there, and the server alone there (`ends` of docs/networks.md).
What adds up along the way is parted so: a latency, and CPU time. A throughput does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import inference, text
from .inference import Estimate
from .tables import Tables

ENDS = ("both", "client_only", "server_only")
LATENCY, CPU = "latency_p50", ("host_cpu_client", "host_cpu_server")


@dataclass(frozen=True)
class Parts:
    """What a network costs more in one case, in the unit of what is measured."""

    network: str
    case: str
    what: str
    unit: str
    base: float  # on the hosts' own network
    client: Estimate
    server: Estimate
    between: Estimate


def parts(found: Tables) -> Iterator[Parts]:
    """Of each network and case, from the rounds that have all four arms."""
    trials = found.usable
    if not {"ends", "through", "network"} <= set(trials):
        return
    ours = trials[(trials["role"] == "measured") & (trials["through"] == "address")]
    ours = ours[~ours["is_control"] & ours["ends"].notna()]
    for workload, of in ours.groupby("workload"):
        column_of = found.loaded.metrics.column
        latency, client, server = (column_of(str(workload), n) for n in (LATENCY, *CPU))
        if latency in of:
            yield from _parted(of, of[latency], "Latency", "s")
        if {client, server} <= set(of):
            unit = found.metric(client).unit
            yield from _parted(of, of[client] + of[server], "CPU of both hosts", unit)


def _parted(of: pd.DataFrame, values: pd.Series, what: str, unit: str) -> Iterator[Parts]:
    told = of.assign(value=values).dropna(subset=["value"])
    seen = told.pivot_table("value", ["match", "block", "round"], ["network", "ends"])
    others = told[told["network"] != "host"]
    for (match, network), rows in others.groupby(["match", "network"]):
        arms = [("host", "both"), *((network, ends) for ends in ENDS)]
        of_match = seen[seen.index.get_level_values("match") == match]
        rounds = of_match.reindex(columns=pd.MultiIndex.from_tuples(arms)).dropna()
        if len(rounds):
            host, both, client, server = rounds.to_numpy(dtype=np.float64).T
            each = (both - server, both - client, client + server - both - host)
            case = str(rows["case"].iloc[0])
            ends = (inference.of_pairs(differences) for differences in each)
            yield Parts(str(network), case, what, unit, float(host.mean()), *ends)


def rows(found: Tables) -> list[tuple[str, ...]]:
    """Network, case, what; on the hosts' own network, at either end, between them."""
    return [
        (
            *(one.network, one.case, one.what, text.quantity(one.base, one.unit)),
            *(text.estimate(part, one.unit) for part in (one.client, one.server, one.between)),
        )
        for one in parts(found)
    ]
