"""The metrics by name: what each is called, its unit, which way is better, how it is printed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Better = Literal["higher", "lower", ""]

DASH = "\N{EN DASH}"


@dataclass(frozen=True)
class Metric:
    """A metric. `better` is empty for what describes a trial and is compared with nothing."""

    name: str
    label: str
    unit: str
    better: Better = ""


REGISTRY = {
    metric.name: metric
    for metric in (
        Metric("throughput", "Throughput", "images/s", "higher"),
        Metric("rate", "Rate", "hashes/s", "higher"),
        Metric("elapsed", "Elapsed", "s", "lower"),
        Metric("startup", "Startup", "s", "lower"),
        Metric("first_step", "First step", "s", "lower"),
        # The first step builds the graph; this says how much dearer it is than a later one. Neither
        # direction is better: slower later steps make it smaller.
        Metric("first_over_later", "First step / median step", "1"),
        Metric("step_median", "Median step", "s", "lower"),
        Metric("cpu", "CPU time", "s", "lower"),
        Metric("memory_peak", "Peak memory", "bytes", "lower"),
        Metric("images_per_cpu_second", "Images per CPU second", "images/s", "higher"),
        Metric("flops", "Achieved FLOP/s", "FLOP/s", "higher"),
        Metric("matmul_flops", "Matmul FLOP/s", "FLOP/s", "higher"),
        Metric("decode_capacity", "Input alone", "images/s", "higher"),
        Metric("input_share", "Share of input", "1"),
        Metric("parameters", "Parameters", "1"),
        Metric("flop_per_image", "Work per image", "FLOP"),
        Metric("run_time", "Run time", "s", "lower"),
        Metric("time_delta", "Time delta of a worker", "s", "lower"),
        Metric("accuracy_max", "Highest accuracy", "1", "higher"),
        Metric("accuracy_std", "Spread of accuracy", "1"),
        Metric("local_steps", "Local steps", "1"),
        Metric("exchange", "Exchange in a step", "s", "lower"),
        Metric("goodput", "Goodput of the link", "bytes/s", "higher"),
        Metric("bytes_moved", "Bytes on the link in a step", "bytes"),
        Metric("limit", "What the link allows", "images/s"),
        Metric("of_limit", "Share of the limit", "1"),
        Metric("skew", "Skew of the workers' begins", "s"),
        Metric("straggler", "Slowest worker / median worker", "1"),
        Metric("loss_first", "First loss", "1"),
        Metric("loss_last", "Last loss", "1"),
    )
}

# What the page answers with, in this order, as far as a run has it.
HEADLINE = ("throughput", "rate", "run_time", "elapsed", "startup")

PREFIXES = {
    "bytes/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")),
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")),
    "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")),
    "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
}
SIGNIFICANT = 4


def get(name: str, unit: str = "1") -> Metric:
    """The metric `name`, in `unit` where that is stated: what is counted differs by workload.

    One that is not known is shown by its name and compared with nothing.
    """
    known = REGISTRY.get(name) or Metric(name, name.replace("_", " ").capitalize(), unit)
    return known if unit == "1" else replace(known, unit=unit)


def ordered(names: Iterable[str]) -> list[str]:
    """Names in the order of the registry, unknown ones after them by name."""
    known = list(REGISTRY)
    return sorted(names, key=lambda n: (known.index(n) if n in REGISTRY else len(known), n))


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
    prefixes = PREFIXES.get(unit, ()) if largest else ()
    fitting = [prefix for prefix in prefixes if largest >= prefix[0]] or prefixes[-1:] or [plain]
    factor, name = fitting[0]
    whole = math.floor(math.log10(largest / factor)) + 1 if largest else 1
    return Scale(factor, name, max(0, SIGNIFICANT - max(whole, 1)))
