"""mbw: how fast the memory is copied, on one thread, from one large array to another.

The real tool of the image, `mbw -t METHOD`. The arrays must be far larger than the last cache, or
the cache is measured. Near and far memory are the factors `cpus` and `numa`: the threads run on the
CPUs, and the memory is the node's.

    cpus: ["0-7"], numa: [0, 1]      where node 0 has CPUs 0 to 7: near, and far

What bounds it is the memory bus of one core; `cache_share` says how much of the arrays the last
cache could hold, where the kernel tells its size.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context
from workloads._tool import Text, Tool, tell_steps

KNOWN = "mbw 1.2.2"
COMMON = ("method", "array_size")
ITEMS = "bytes"
METRICS = (
    Metric("bandwidth", "Bytes copied", "bytes/s", "higher", headline=True),
    Metric("copy_min", "Bytes copied, slowest run", "bytes/s", "higher"),
    Metric("copy_max", "Bytes copied, fastest run", "bytes/s", "higher"),
    Metric("cache_share", "Last cache / both arrays", "1"),
)
TOPOLOGY, PORTS = ONE, ()
BACKGROUND = False
FAMILY = "tools"
WRITABLE = False
MEMORY = 2**29

MIB = 2**20
METHODS = {"memcpy": ("0", "MEMCPY"), "loop": ("1", "DUMB"), "blocks": ("2", "MCBLOCK")}
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
SLOWEST_BYTES = 2e8  # a second
SIZE = re.compile(r"(\d+)([KM]?)")


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `memory_bandwidth`."""

    method: Literal["memcpy", "loop", "blocks"] = field(
        default="memcpy",
        metadata={
            "help": "the C library's memcpy, a plain loop, or memcpy of 256 KiB blocks",
            "unit": "",
        },
    )
    array_size: int = field(
        default=256 * MIB, metadata={"help": "of each of the two arrays", "unit": "bytes"}
    )
    runs: int = field(default=20, metadata={"help": "copies that are measured", "unit": "1"})

    def __post_init__(self) -> None:
        """Refuses what mbw cannot do."""
        self.at_least(MIB, "array_size")
        self.at_least(1, "runs")
        if self.array_size % MIB:
            raise _options.refuse("array_size", "must be whole MiB", 256 * MIB, self.array_size)


def estimate(options: Options, _cores: float) -> float:
    """Seconds, on slow memory."""
    return 5.0 + (options.runs + 2) * options.array_size / SLOWEST_BYTES


def run(options: Options, context: Context) -> None:
    """Copies, and tells the mean of all runs."""
    # mbw does not say its version: the distribution does.
    tool = Tool.find("mbw", FAMILY, KNOWN, ask=["dpkg-query", "--show", "mbw"])
    context.environment["mbw"] = tool.version
    context.mark("first_step_begin")
    said = tool.run(arguments(options), context.out)
    tool.must_not_complain(said)  # mbw passes over an option that it does not have
    rates, seconds = parse(tool.text(said.stdout), options)
    context.scalar("bandwidth", options.array_size * len(rates) / seconds)
    context.scalar("copy_min", min(rates))
    context.scalar("copy_max", max(rates))
    cache = last_cache(CACHES)
    if cache:
        context.scalar("cache_share", cache / (2 * options.array_size))
    tell_steps(context, said, options.array_size * len(rates), seconds)


def arguments(options: Options) -> list[str]:
    """The command line."""
    method = f"-t{METHODS[options.method][0]}"
    return ["mbw", "-q", "-n", str(options.runs), method, str(options.array_size // MIB)]


def parse(text: Text, options: Options) -> tuple[list[float], float]:
    """Bytes/s of each run, and the seconds of all. OutputError names mbw, version and line."""
    name, mib = METHODS[options.method][1], options.array_size // MIB
    rates, seconds = [], []
    for number in range(options.runs):
        pattern = rf"^{number}\s+Method: {name}\s+Elapsed: ([\d.]+)\s+MiB: ([\d.]+)\s"
        took, size = text.numbers(f"{number} Method: {name}", pattern)
        if size != mib or not took:
            raise text.lacks(f"{number} Method: {name}", f"{size:g} MiB in {took:g} s")
        seconds.append(took)
        rates.append(options.array_size / took)
    return rates, math.fsum(seconds)


def last_cache(folder: Path) -> int:
    """Bytes of the largest cache of a CPU; 0 where the kernel does not tell."""
    found = [0]
    for path in folder.glob("index*/size"):
        match = SIZE.fullmatch(path.read_text().strip())
        if match:
            found.append(int(match[1]) * {"": 1, "K": 2**10, "M": MIB}[match[2]])
    return max(found)
