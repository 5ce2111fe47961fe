"""sysbench: CPU, memory, threads, and files, with all figures of its report.

The real tool of the image, once for each trial. What bounds each test:

    cpu       the cores: trial division to find primes, in registers
    memory    how fast each thread writes or reads a block that fits into a cache, with a call for
              each; workload `memory_bandwidth` asks for the memory's own speed
    threads   the scheduler and futexes: threads lock, yield and unlock
    fileio    the page cache and, as far as it is written back or passed by, the disk

`busy` says how near a test came to doing nothing else: the share of its time in which its threads
were in events.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context
from workloads._storage import ABOUT, Storage, folder
from workloads._tool import Said, Tool, tell_steps
from workloads.sysbench import output

COMMON = ("test", "threads", "events", "duration")
ITEMS = "events"
METRICS = (
    Metric("rate", "Events", "events/s", "higher", headline=True),
    Metric("total_time", "Total time", "s", "lower"),
    Metric("event_time", "Time in events, of all threads", "s", "lower"),
    Metric("busy", "Share of the time in events", "1"),
    Metric("latency_min", "Latency, lowest", "s", "lower"),
    Metric("latency_mean", "Latency, mean", "s", "lower"),
    Metric("latency_max", "Latency, highest", "s", "lower"),
    Metric("latency_p95", "Latency, 95 % of events", "s", "lower"),
    Metric("thread_events_mean", "Events of a thread, mean", "events"),
    Metric("thread_events_std", "Events of a thread, deviation", "events", "lower"),
    Metric("thread_time_mean", "Time of a thread in events, mean", "s", "lower"),
    Metric("thread_time_std", "Time of a thread in events, deviation", "s", "lower"),
    Metric("bandwidth", "Bytes moved", "bytes/s", "higher", headline=True),
    Metric("reads", "Reads", "requests/s", "higher"),
    Metric("writes", "Writes", "requests/s", "higher"),
    Metric("fsyncs", "Calls of fsync", "requests/s", "higher"),
)
TOPOLOGY, PORTS = ONE, ()
FAMILY = "tools"
WRITABLE = True
MEMORY = 2**27

MOST_THREADS = 1024
PERCENTILE = 95
SECONDS_PER_EVENT = 0.1  # pessimistic: one that waits for a spinning disk
SLOWEST_BYTES = 50e6  # a second, with which files are made, and memory moved


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `sysbench`. Those that begin with the name of a test are that test's."""

    test: Literal["cpu", "memory", "threads", "fileio"] = field(
        default="cpu", metadata={"help": "what is measured", "unit": ""}
    )
    threads: int = field(
        default=0, metadata={"help": "at once; 0: one for each CPU of the trial", "unit": "1"}
    )
    events: int = field(
        default=0,
        metadata={
            "help": "after so many it ends; 0: no limit. The test of memory ends after "
            "memory_total_size instead",
            "unit": "events",
        },
    )
    duration: int = field(
        default=10, metadata={"help": "it ends after this time; 0: no limit", "unit": "s"}
    )
    seed: int = field(default=1, metadata={"help": "of its random numbers", "unit": "1"})
    cpu_max_prime: int = field(
        default=10_000, metadata={"help": "an event finds all primes up to this", "unit": "1"}
    )
    memory_block_size: int = field(
        default=1024, metadata={"help": "that an event moves", "unit": "bytes"}
    )
    memory_total_size: int = field(
        default=10 * 2**30, metadata={"help": "that is moved in all", "unit": "bytes"}
    )
    memory_operation: Literal["write", "read"] = field(
        default="write", metadata={"help": "what is done to the blocks", "unit": ""}
    )
    memory_access: Literal["sequential", "random"] = field(
        default="sequential", metadata={"help": "in which order, in a block", "unit": ""}
    )
    thread_yields: int = field(default=1000, metadata={"help": "in an event", "unit": "1"})
    thread_locks: int = field(default=8, metadata={"help": "that threads share", "unit": "1"})
    file_mode: Literal["rndrd", "rndwr", "rndrw", "seqrd", "seqwr", "seqrewr"] = field(
        default="rndrw",
        metadata={"help": "random or in sequence; reads, writes, or three reads to two writes"},
    )
    file_total_size: int = field(
        default=2 * 2**30, metadata={"help": "of all files together", "unit": "bytes"}
    )
    file_number: int = field(default=128, metadata={"help": "of files", "unit": "1"})
    file_block_size: int = field(default=16_384, metadata={"help": "of a request", "unit": "bytes"})
    file_direct: bool = field(
        default=False, metadata={"help": "past the page cache (O_DIRECT)", "unit": ""}
    )
    file_fsync_frequency: int = field(
        default=100, metadata={"help": "fsync after so many writes; 0: never", "unit": "1"}
    )
    storage: Storage = field(default="disk", metadata=ABOUT)

    def __post_init__(self) -> None:
        """Refuses what sysbench cannot do, or would never end."""
        self.at_least(0, "threads", "events", "duration", "seed", "file_fsync_frequency")
        self.at_least(1, "memory_block_size", "memory_total_size", "thread_yields", "thread_locks")
        self.at_least(1, "file_total_size", "file_number", "file_block_size")
        self.at_least(3, "cpu_max_prime")
        self.at_most(MOST_THREADS, "threads")
        if not self.duration and not self.events and self.test != "memory":
            rule = "a test needs an end: a time, or a number of events"
            raise _options.refuse("duration", rule, 10, 0)
        if self.file_total_size < self.file_number * self.file_block_size:
            rule = "every file must hold a block"
            example = self.file_number * self.file_block_size
            raise _options.refuse("file_total_size", rule, example, self.file_total_size)
        if self.storage != "disk" and self.test != "fileio":
            rule = "only the test fileio has files"
            raise _options.refuse("storage", rule, "disk", self.storage)


def estimate(options: Options, cores: float) -> float:
    """Seconds: files have to be made, and events may be slow."""
    made = options.file_total_size / SLOWEST_BYTES if options.test == "fileio" else 0.0
    if options.duration:
        return 5.0 + made + options.duration
    if options.test == "memory":
        return 5.0 + options.memory_total_size / SLOWEST_BYTES
    return 5.0 + made + options.events * SECONDS_PER_EVENT / max(min(cores, 8.0), 1.0)


def run(options: Options, context: Context) -> None:
    """Makes files where the test needs them, and runs it."""
    tool = Tool.find("sysbench", FAMILY, output.KNOWN, ask=["sysbench", "--version"])
    context.environment["sysbench"] = tool.version
    where = folder(context, options.storage) if options.test == "fileio" else context.out
    threads = options.threads or context.cpus or len(os.sched_getaffinity(0))
    context.environment["threads"] = threads
    if options.test == "fileio":
        tool.run([*arguments(options, threads), "prepare"], where)
    context.mark("first_step_begin")
    said = tool.run([*arguments(options, threads), "run"], where)
    _tell(context, said, output.parse(tool.text(said.stdout), options.test), threads)


def arguments(options: Options, threads: int) -> list[str]:
    """The command line but its last word."""
    memory = options.test == "memory"
    given: dict[str, object] = {
        "threads": threads,
        "time": options.duration,
        "events": 0 if memory else options.events,
        "percentile": PERCENTILE,
        "rand-seed": options.seed,
    }
    own: dict[str, dict[str, object]] = {
        "cpu": {"cpu-max-prime": options.cpu_max_prime},
        "memory": {
            "memory-block-size": options.memory_block_size,
            "memory-total-size": options.memory_total_size,
            "memory-oper": options.memory_operation,
            "memory-access-mode": {"sequential": "seq", "random": "rnd"}[options.memory_access],
        },
        "threads": {"thread-yields": options.thread_yields, "thread-locks": options.thread_locks},
        "fileio": {
            "file-test-mode": options.file_mode,
            "file-total-size": options.file_total_size,
            "file-num": options.file_number,
            "file-block-size": options.file_block_size,
            "file-fsync-freq": options.file_fsync_frequency,
            **({"file-extra-flags": "direct"} if options.file_direct else {}),
        },
    }
    words = {**given, **own[options.test]}
    return ["sysbench", options.test, *(f"--{name}={value}" for name, value in words.items())]


def _tell(context: Context, said: Said, found: output.Report, threads: int) -> None:
    for name, value in found.figures().items():
        context.scalar(name, value)
    context.scalar("busy", found.event_time / (threads * found.total_time))
    # sysbench's own start and end are no part of the test.
    tell_steps(context, said, found.events, found.total_time)
