"""fio: reads and writes at a queue depth, past the page cache or through it, with percentiles.

The real tool of the image, once for each trial. It asks what `dd` and `ioping` ask, and asks it
well: with `direct` the disk answers and not the memory, with `queue_depth` as many requests wait at
once as a workload would have waiting, and the slow ones are told apart by percentiles.

What bounds it is the device, and the path to it that `storage` names. How near it came says
`device_busy`, the share of the time in which the device had requests, where the kernel counts it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context
from workloads._storage import ABOUT, BUSY, Storage, folder
from workloads._tool import Document, Tool, from_json, tell_steps

KNOWN = "fio-3.33"
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
WAYS = ("read", "write")
COMMON = ("pattern", "block_size", "queue_depth", "direct", "duration")
ITEMS = "requests"
METRICS = (
    Metric("requests", "Requests", "requests/s", "higher", headline=True),
    Metric("bandwidth", "Bytes moved", "bytes/s", "higher", headline=True),
    *(
        metric
        for way in WAYS
        for metric in (
            Metric(f"{way}_requests", f"Requests, {way}", "requests/s", "higher"),
            Metric(f"{way}_bandwidth", f"Bytes moved, {way}", "bytes/s", "higher"),
            Metric(f"{way}_latency_mean", f"Latency of a {way}, mean", "s", "lower"),
            *(
                Metric(
                    f"{way}_latency_{name}",
                    f"Latency of a {way}, {share:g} % of them",
                    "s",
                    "lower",
                )
                for name, share in PERCENTILES.items()
            ),
            Metric(f"{way}_latency_max", f"Latency of a {way}, highest", "s", "lower"),
        )
    ),
    BUSY,
)
TOPOLOGY, PORTS = ONE, ()
BACKGROUND = False
FAMILY = "tools"
WRITABLE = True
MEMORY = 2**28

NANO = 1e-9
REPORT = "fio.json"
MOST_DEPTH, MOST_JOBS = 4096, 256
SLOWEST_BYTES = 50e6  # a second, with which files are made


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `fio`."""

    pattern: Literal["read", "write", "randread", "randwrite", "rw", "randrw"] = field(
        default="randread", metadata={"help": "in sequence or random; rw: both", "unit": ""}
    )
    block_size: int = field(default=4096, metadata={"help": "of a request", "unit": "bytes"})
    queue_depth: int = field(
        default=1, metadata={"help": "requests of a job that wait at once", "unit": "1"}
    )
    jobs: int = field(default=1, metadata={"help": "at once, each with its own file", "unit": "1"})
    direct: bool = field(
        default=True, metadata={"help": "past the page cache (O_DIRECT)", "unit": ""}
    )
    engine: Literal["libaio", "psync", "io_uring"] = field(
        default="libaio", metadata={"help": "how requests are made; psync: one by one", "unit": ""}
    )
    file_size: int = field(default=2**30, metadata={"help": "of a job's file", "unit": "bytes"})
    read_share: int = field(
        default=70, metadata={"help": "of the requests of rw and randrw", "unit": "%"}
    )
    fsync_every: int = field(
        default=0, metadata={"help": "fsync after so many writes; 0: never", "unit": "1"}
    )
    seed: int = field(default=1, metadata={"help": "of where random requests go", "unit": "1"})
    warmup: int = field(default=2, metadata={"help": "before the measured window", "unit": "s"})
    duration: int = field(default=10, metadata={"help": "of the measured window", "unit": "s"})
    storage: Storage = field(default="disk", metadata=ABOUT)

    def __post_init__(self) -> None:
        """Refuses what fio cannot do."""
        self.at_least(1, "block_size", "queue_depth", "jobs", "file_size", "duration")
        self.at_least(0, "read_share", "fsync_every", "seed", "warmup")
        self.at_most(MOST_DEPTH, "queue_depth")
        self.at_most(MOST_JOBS, "jobs")
        self.at_most(100, "read_share")
        if self.engine == "psync" and self.queue_depth > 1:
            rule = "psync makes one request at a time"
            raise _options.refuse("queue_depth", rule, 1, self.queue_depth)
        if self.engine != "psync" and self.queue_depth > 1 and not self.direct:
            rule = "requests that the page cache answers do not wait: direct must be true"
            raise _options.refuse("queue_depth", rule, 1, self.queue_depth)
        if self.file_size < self.block_size:
            rule = "a file must hold a block"
            raise _options.refuse("file_size", rule, self.block_size, self.file_size)
        if self.direct and self.block_size % 512:
            rule = "a request past the page cache is a multiple of 512 bytes"
            raise _options.refuse("block_size", rule, 4096, self.block_size)


def estimate(options: Options, _cores: float) -> float:
    """Seconds: its own time, and that of the files to be made."""
    return (
        5.0 + options.warmup + options.duration + options.jobs * options.file_size / SLOWEST_BYTES
    )


def run(options: Options, context: Context) -> None:
    """Runs it, and tells what it says of the measured window."""
    tool = Tool.find("fio", FAMILY, KNOWN, ask=["fio", "--version"])
    context.environment["fio"] = tool.version
    where = folder(context, options.storage)
    context.mark("first_step_begin")
    report = context.out / REPORT
    said = tool.run(arguments(options, str(where), str(report)), where)
    found = parse(tool.version, report.read_text(), options)
    for name, value in found.items():
        context.scalar(name, value)
    tell_steps(context, said, found["requests"] * options.duration, options.duration)


def arguments(options: Options, where: str, report: str) -> list[str]:
    """The command line."""
    given = {
        "name": "strata",
        "directory": where,
        "rw": options.pattern,
        "bs": options.block_size,
        "iodepth": options.queue_depth,
        "numjobs": options.jobs,
        "direct": int(options.direct),
        "ioengine": options.engine,
        "size": options.file_size,
        "rwmixread": options.read_share,
        "fsync": options.fsync_every,
        "randseed": options.seed,
        "ramp_time": options.warmup,
        "runtime": options.duration,
        "percentile_list": ":".join(f"{share:g}" for share in PERCENTILES.values()),
        "clat_percentiles": 0,
        "lat_percentiles": 1,
        "output-format": "json",
        "output": report,
    }
    # Threads: processes would need shared memory, of which a container has little.
    flags = ["--time_based", "--group_reporting", "--thread"]
    return ["fio", *(f"--{name}={value}" for name, value in given.items()), *flags]


def parse(version: str, text: str, options: Options) -> dict[str, float]:
    """Its figures by the names of the metrics. OutputError names fio, its version and the key."""
    document = Document(version, KNOWN, from_json(version, text))
    said = document.text("fio version")
    if said != version:
        raise document.error(("fio version",), f"it must be {version}; given: {said}")
    if document.number("jobs", 0, "error"):
        raise document.error(("jobs", 0, "error"), "it must be 0")
    found: dict[str, float] = {}
    for way in ways(options):
        found |= _way(document, way)
    found["requests"] = sum(found[f"{way}_requests"] for way in ways(options))
    found["bandwidth"] = sum(found[f"{way}_bandwidth"] for way in ways(options))
    disks = document.get().get("disk_util", [])
    busy = [document.number("disk_util", n, "util") for n in range(len(disks))]
    # Several devices where one stands on another: the busiest is the one that bounds.
    return found | ({"device_busy": max(busy) / 100} if busy else {})


def ways(options: Options) -> tuple[str, ...]:
    """In which ways data goes."""
    if options.pattern in ("rw", "randrw"):
        return WAYS
    return ("read",) if options.pattern.endswith("read") else ("write",)


def _way(document: Document, way: str) -> dict[str, float]:
    at = ("jobs", 0, way)
    if not document.number(*at, "total_ios"):
        raise document.error((*at, "total_ios"), "there must be requests in the measured window")
    latency = {
        "mean": document.number(*at, "lat_ns", "mean"),
        "max": document.number(*at, "lat_ns", "max"),
        **{
            name: document.number(*at, "lat_ns", "percentile", f"{share:.6f}")
            for name, share in PERCENTILES.items()
        },
    }
    return {
        f"{way}_requests": document.number(*at, "iops"),
        f"{way}_bandwidth": document.number(*at, "bw_bytes"),
        **{f"{way}_latency_{name}": NANO * value for name, value in latency.items()},
    }
