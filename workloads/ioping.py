"""ioping: how long one small request takes, and how many of them one after another in a second.

The real tool of the image, with the three tests of Xu, Shi and Chu (HKBU 2017):

    latency   `ioping -c 10 .`     a request each `interval`, as a disk that has time answers
    cached    `ioping -C -R -w 5 .`   one right after another, from the page cache
    direct    `ioping -D -R -w 5 .`   one right after another, past the page cache

What bounds `cached` is a system call and the memory, `direct` the device and the path to it that
`storage` names; `device_busy` says how near that came, where the kernel counts it. They found
containers a hundred times faster than their host in `direct`, which no path explains: what answered
them was a cache. So each result says on which file system it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context
from workloads._storage import ABOUT, BUSY, Device, Storage, folder, tell_busy
from workloads._tool import Document, OutputError, Tool, from_json, tell_steps

KNOWN = "ioping 1.3"
COMMON = ("test", "request_size", "storage")
ITEMS = "requests"
METRICS = (
    Metric("latency_mean", "Latency, mean", "s", "lower", headline=True),
    Metric("latency_min", "Latency, lowest", "s", "lower"),
    Metric("latency_max", "Latency, highest", "s", "lower"),
    Metric("latency_std", "Latency, deviation", "s", "lower"),
    Metric("requests", "Requests", "requests/s", "higher", headline=True),
    Metric("bandwidth", "Bytes read", "bytes/s", "higher"),
    BUSY,
)
TOPOLOGY, PORTS = ONE, ()
BACKGROUND = False
FAMILY = "tools"
WRITABLE = True
MEMORY = 2**27

NANO = 1e-9
FLAGS = {"latency": [], "cached": ["-C", "-R"], "direct": ["-D", "-R"]}


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `ioping`."""

    test: Literal["latency", "cached", "direct"] = field(
        default="latency", metadata={"help": "what is measured", "unit": ""}
    )
    requests_asked: int = field(
        default=10, metadata={"help": "of the test latency; its first is no figure", "unit": "1"}
    )
    interval: float = field(
        default=1.0, metadata={"help": "from one of these to the next", "unit": "s"}
    )
    duration: int = field(default=5, metadata={"help": "of the other tests", "unit": "s"})
    request_size: int = field(default=4096, metadata={"help": "of a request", "unit": "bytes"})
    file_size: int = field(default=2**20, metadata={"help": "that is read", "unit": "bytes"})
    storage: Storage = field(default="disk", metadata=ABOUT)

    def __post_init__(self) -> None:
        """Refuses what ioping cannot do."""
        self.at_least(2, "requests_asked")
        self.at_least(1, "duration", "request_size")
        self.at_least(0, "interval")
        if self.file_size < self.request_size:
            rule = "the file must hold a request"
            raise _options.refuse("file_size", rule, self.request_size, self.file_size)


def estimate(options: Options, _cores: float) -> float:
    """Seconds: its own time."""
    latency = options.requests_asked * (options.interval + 0.1)
    return 5.0 + (latency if options.test == "latency" else options.duration)


def run(options: Options, context: Context) -> None:
    """Runs it, and tells what it says."""
    tool = Tool.find("ioping", FAMILY, KNOWN, ask=["ioping", "-v"])
    context.environment["ioping"] = tool.version
    where = folder(context, options.storage)
    context.mark("first_step_begin")
    device = Device(where)
    before = device.busy()
    said = tool.run(arguments(options), where)
    tell_busy(context, device.busy() - before, said.seconds)
    found, count = parse(tool.version, said.stdout)
    for name, value in found.items():
        context.scalar(name, value)
    tell_steps(context, said, count)


def arguments(options: Options) -> list[str]:
    """The command line."""
    latency = ["-c", str(options.requests_asked), "-i", f"{options.interval:g}s"]
    ends = latency if options.test == "latency" else ["-w", f"{options.duration}s"]
    sizes = ["-s", str(options.request_size), "-S", str(options.file_size)]
    return ["ioping", "-q", "-J", *FLAGS[options.test], *ends, *sizes, "."]


def parse(version: str, text: str) -> tuple[dict[str, float], float]:
    """Its figures by the names of the metrics, and the number of requests that they are made of.

    OutputError names ioping, its version and the key.
    """
    listed = from_json(version, text)
    if not isinstance(listed, list) or not listed:
        raise OutputError(f"{version}: its output must be a list of one; given: {text[:200]!r}")
    document = Document(version, KNOWN, listed[-1])
    count = document.number("stat", "count")
    if not count:
        raise document.error(("stat", "count"), "there must be requests")
    latency = {"mean": "avg", "min": "min", "max": "max", "std": "mdev"}
    found = {
        f"latency_{name}": NANO * document.number("stat", key) for name, key in latency.items()
    }
    found["requests"] = document.number("stat", "iops")
    found["bandwidth"] = document.number("stat", "bps")
    return found, count
