"""The metrics of a run: what each is called, its unit, which way is better, how it is printed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Better = Literal["higher", "lower", ""]

# Columns of the frames that say which trial a row is: a metric of such a name has another column.
RESERVED = frozenset((
    *("run", "slot", "trial", "cell", "repetition", "block", "round", "folder", "role"),
    *("platform", "hosts", "status", "cause", "message", "started", "launched", "duration_s"),
    *("overlap", "neighbour", "family", "image", "dataset", "levels", "arm", "short", "case"),
    *("match", "is_baseline", "is_control", "planned", "metric", "first_over_later", "name"),
    *("detail", "row", "side", "together_s", "duet", "is_reference", "path_mtu"),
))  # fmt: skip

DASH = "\N{EN DASH}"


@dataclass(frozen=True)
class Metric:
    """A metric by the name of its column. `better` is empty for what describes a trial and is
    compared with nothing."""

    name: str
    label: str
    unit: str
    better: Better = ""
    headline: bool = False


class Metrics:
    """The metrics of a run, in the order of the page.

    Where two workloads declare a name differently, the column of the later one is
    `NAME_WORKLOAD`, so that no column holds numbers in two units; and so is that of a name which
    a column of the frames has (RESERVED).
    """

    def __init__(
        self, declared: Mapping[str, Sequence[Metric]], levels: Collection[str] = ()
    ) -> None:
        """`declared` are the metrics of each workload, those of measured ones first; `levels` are
        columns, too."""
        self._reserved = RESERVED | set(levels)
        self._known: dict[str, Metric] = {}
        self._columns: dict[tuple[str, str], str] = {}
        self.leads: list[str] = []  # the first headline of each workload
        for workload, own in declared.items():
            columns = [self._add(workload, metric) for metric in own]
            self.leads += [c for c in columns if self._known[c].headline][:1]
        self.leads = list(dict.fromkeys(self.leads))

    def _add(self, workload: str, metric: Metric) -> str:
        column = metric.name
        taken = column in self._reserved or column.startswith("phase_")
        if taken or self._known.setdefault(column, metric) != metric:
            column = f"{metric.name}_{workload}"
            label = f"{metric.label} ({workload})"
            self._known[column] = replace(metric, name=column, label=label)
        self._columns[workload, metric.name] = column
        return column

    def column(self, workload: str, name: str) -> str:
        """Where the metric `name` of a workload stands in the frames."""
        return self._columns.get((workload, name), name)

    def get(self, column: str) -> Metric:
        """The metric in a column."""
        return self._known[column]

    def __iter__(self) -> Iterator[Metric]:
        """All of them."""
        return iter(self._known.values())

    @property
    def headline(self) -> list[Metric]:
        """What the page answers with: the first of each workload, then the others."""
        rest = [metric for metric in self if metric.headline and metric.name not in self.leads]
        return [*(self.get(column) for column in self.leads), *rest]


def unknown(name: str, unit: str = "1") -> Metric:
    """A metric that nobody declared: it is shown by its name, and compared with nothing."""
    return Metric(name, name.replace("_", " ").capitalize(), unit)


PREFIXES = {
    "bytes/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")),
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")),
    "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")),
    "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
}
SIGNIFICANT = 4


@dataclass(frozen=True)
class Scale:
    """How one column of numbers is printed: divided by `factor`, with `digits` decimals."""

    factor: float
    unit: str
    digits: int

    def text(self, value: float | None) -> str:
        """`value` in this scale; a dash for a number that is not there."""
        if value is None or not math.isfinite(value):
            return DASH
        return f"{value / self.factor:,.{self.digits}f}"

    def with_unit(self, value: float) -> str:
        return f"{self.text(value)} {self.unit}".strip()


def scale(values: Iterable[float], unit: str) -> Scale:
    """A scale in which the largest of `values` shows four significant digits."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    plain = (1.0, "" if unit == "1" else unit)
    prefixes = _prefixes(unit) if largest else ()
    fitting = [prefix for prefix in prefixes if largest >= prefix[0]] or prefixes[-1:] or [plain]
    factor, name = fitting[0]
    whole = math.floor(math.log10(largest / factor)) + 1 if largest else 1
    return Scale(factor, name, max(0, SIGNIFICANT - max(whole, 1)))


def _prefixes(unit: str) -> tuple[tuple[float, str], ...]:
    """Of a unit; what is per something, and has none of its own, has those of what it counts."""
    counted, per, each = unit.partition("/")
    if unit in PREFIXES or not per:
        return PREFIXES.get(unit, ())
    return tuple((factor, f"{name}/{each}") for factor, name in PREFIXES.get(counted, ()))
