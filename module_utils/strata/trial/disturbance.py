"""What disturbed a trial while it was measured: for each cause its share of the measured window.

Causes only, never what came of the trial. Whether one is reason enough to run a trial again is
decided on the controller, by the rule of the experiment.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from ..host.sampler import Sample, Spent

# Above these shares a cause is a doubt, told as a flag. A trial that wants all CPUs loses what
# others take; 5 % is also the drift above which a trial counts as not steady. That tasks wait for
# a CPU is no doubt: those of a trial that has more of them than CPUs wait for each other.
DOUBTS = {
    "others": 0.05,
    "steal": 0.02,
    "swap": 0.0,
    "pressure_memory": 0.05,
    "pressure_io": 0.2,
    "frequency": 0.2,
    "traffic": 0.05,
}
FLAGS = {"others": "disturbed", "pressure_memory": "pressure", "pressure_io": "pressure"}
SAID = {
    "others": "of the CPU time went to processes that are no part of the slot",
    "steal": "of the CPU time went to other guests",
    "swap": "of the time pages were swapped in or out",
    "pressure_memory": "of the time some task waited for memory",
    "pressure_io": "of the time some task waited for a disk",
    "frequency": "of the time the CPUs were slower than usual here by more than a tenth",
    "traffic": "of what the cards can carry was other traffic",
}
# CPU seconds of others that are no doubt even in the shortest trial: a runtime's engine takes some
# hundredths to see to the end of its programs, and the kernel counts in hundredths on each CPU.
OTHERS_LEAST_S = 0.2
SLOWER = 0.9  # of the median frequency of the window


def shares(
    measured: Sequence[Sample], found: Spent, cores: int, link: float | None = None
) -> dict[str, float]:
    """Each cause's share of the window from the first to the last sample, from 0 to 1.

    A cause is left out where the host cannot tell. `found` is who used the CPUs in the window, and
    `link` what the cards can carry (bytes/s), None where that is unknown or the trial itself uses
    them. `others` is 0 where they used too little to be told from noise.
    """
    first, last = measured[0], measured[-1]
    seconds = max(last.mono - first.mono, 1e-9)
    told: dict[str, float | None] = {
        "others": None,
        "steal": (last.host.steal - first.host.steal) / (cores * seconds),
        "swap": _time(pairwise(measured), lambda a, b: b.host.swap > a.host.swap) / seconds,
        "frequency": _slow(measured),
    }
    if found.others is not None:
        heard = found.others > OTHERS_LEAST_S
        told["others"] = found.others / (cores * seconds) if heard else 0.0
    for name in ("cpu", "memory", "io"):
        waits = [getattr(sample.host, f"waited_{name}") for sample in (first, last)]
        told[f"pressure_{name}"] = None if None in waits else (waits[1] - waits[0]) / seconds
    if link and first.host.net_received is not None:
        moved = sum(_grown(first, last, name) for name in ("net_received", "net_sent"))
        told["traffic"] = moved / (link * seconds)
    return {name: min(1.0, max(0.0, s)) for name, s in told.items() if s is not None}


def flags(found: dict[str, float]) -> list[dict[str, object]]:
    """The doubts that these shares raise."""
    return [
        {
            "name": FLAGS.get(cause, cause),
            "detail": f"{found[cause]:.1%} {SAID[cause]}",
            "share": found[cause],
        }
        for cause, most in DOUBTS.items()
        if found.get(cause, 0.0) > most
    ]


def worst(every: Iterable[dict[str, float]]) -> dict[str, float]:
    """Of several hosts the largest share of each cause: the slowest of them makes the trial."""
    together: dict[str, float] = {}
    for found in every:
        together |= {name: max(s, together.get(name, 0.0)) for name, s in found.items()}
    return together


def _grown(first: Sample, last: Sample, name: str) -> float:
    return float(getattr(last.host, name) - getattr(first.host, name))


def _slow(measured: Sequence[Sample]) -> float | None:
    """The share of samples at which the CPUs ran slower than the window's median by a tenth."""
    known = [f for f in (sample.gauges.get("frequency") for sample in measured) if f]
    if not known:
        return None
    usual = statistics.median(known)
    return sum(frequency < SLOWER * usual for frequency in known) / len(known)


def _time(pairs: Iterable[tuple[Sample, Sample]], so: Callable[[Sample, Sample], bool]) -> float:
    """Seconds between those neighbouring samples of which `so` is true."""
    return sum(after.mono - before.mono for before, after in pairs if so(before, after))
