"""What sysbench says, read.

It writes latencies in milliseconds with two digits after the point. One that it writes as 0.00 is
shorter than it can say, and left out; the mean is made of the sum, which has as many digits and is
long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from workloads._tool import Text

KNOWN = "sysbench 1.0.20"
Test = Literal["cpu", "memory", "threads", "fileio"]
NUMBER = r"\s+(\d+(?:\.\d+)?)"
MS, MIB = 1e-3, 2**20


@dataclass(frozen=True)
class Report:
    """A test that ended well, in seconds, bytes and events."""

    total_time: float
    events: float
    event_time: float  # sum over all threads
    latency: dict[str, float]  # min, max, p95, as far as they are known
    thread_events: tuple[float, float]  # mean and standard deviation over threads
    thread_time: tuple[float, float]  # s
    more: dict[str, float] = field(default_factory=dict)  # of the test alone

    def figures(self) -> dict[str, float]:
        """By the names of the workload's metrics."""
        return {
            "rate": self.events / self.total_time,
            "total_time": self.total_time,
            "event_time": self.event_time,
            "latency_mean": self.event_time / self.events,
            **{f"latency_{name}": value for name, value in self.latency.items()},
            "thread_events_mean": self.thread_events[0],
            "thread_events_std": self.thread_events[1],
            "thread_time_mean": self.thread_time[0],
            "thread_time_std": self.thread_time[1],
            **self.more,
        }


def parse(text: Text, test: Test) -> Report:
    """The report of a test. OutputError names sysbench, its version and the line."""
    general = text.within("General statistics:")
    latency, fairness = text.within("Latency (ms):"), text.within("Threads fairness:")
    total = general.number("total time:", rf"^\s*total time:{NUMBER}s$")
    events = general.number("total number of events:", rf"^\s*total number of events:{NUMBER}$")
    if not total or not events:
        raise general.lacks("total number of events:", f"{events:g} events in {total:g} s")
    found = {
        name: MS * latency.number(label, rf"^\s*{label}{NUMBER}$")
        for name, label in (("min", "min:"), ("max", "max:"), ("p95", "95th percentile:"))
    }
    return Report(
        total_time=total,
        events=events,
        event_time=MS * latency.number("sum:", rf"^\s*sum:{NUMBER}$"),
        latency={name: value for name, value in found.items() if value},
        thread_events=_spread(fairness, "events"),
        thread_time=_spread(fairness, "execution time"),
        more={"memory": _memory, "fileio": _files}.get(test, _nothing)(text),
    )


def _spread(text: Text, what: str) -> tuple[float, float]:
    mean, deviation = text.numbers(
        f"{what} (avg/stddev):", rf"^\s*{what} \(avg/stddev\):\s+([\d.]+)/([\d.]+)$"
    )
    return mean, deviation


def _nothing(_text: Text) -> dict[str, float]:
    return {}


def _memory(text: Text) -> dict[str, float]:
    rate = text.number("MiB transferred", r"^[\d.]+ MiB transferred \(([\d.]+) MiB/sec\)$")
    return {"bandwidth": rate * MIB}


def _files(text: Text) -> dict[str, float]:
    """Requests of a kind that the test does not make are no figure."""
    operations, moved = text.within("File operations:"), text.within("Throughput:")
    counts = {
        name: operations.number(f"{name}/s:", rf"^\s*{name}/s:{NUMBER}$")
        for name in ("reads", "writes", "fsyncs")
    }
    rates = [
        moved.number(f"{name}, MiB/s:", rf"^\s*{name}, MiB/s:{NUMBER}$")
        for name in ("read", "written")
    ]
    return {"bandwidth": MIB * sum(rates), **{name: n for name, n in counts.items() if n}}
