"""dd: one file, written from its begin to its end, and how fast that was.

The real tool of the image. The study of Docker by Xu, Shi and Chu (HKBU 2017) wrote files of 1, 100
and 512 MiB and of 1 GiB in blocks of 64 KiB, with `conv=fdatasync`: it waits until the disk has the
data. `rewrites` repeats it in one trial, since a small file takes milliseconds.

What bounds it is the disk, and the path to it that `storage` names; on tmpfs, and where it waits
for nothing, the memory. How near it came says `device_busy`, where the kernel counts it; `fio` with
a queue says what the same device can do.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context
from workloads._storage import ABOUT, BUSY, Device, Storage, folder, tell_busy
from workloads._tool import Text, Tool

KNOWN = "dd (coreutils) 9.1"
COMMON = ("size", "sync", "storage")
ITEMS = "bytes"
METRICS = (
    Metric("bandwidth", "Bytes written", "bytes/s", "higher", headline=True),
    Metric("write_median", "Writing the file, median", "s", "lower"),
    Metric("write_min", "Writing the file, fastest", "s", "lower"),
    Metric("write_max", "Writing the file, slowest", "s", "lower"),
    BUSY,
)
TOPOLOGY, PORTS = ONE, ()
BACKGROUND = False
FAMILY = "tools"
WRITABLE = True
MEMORY = 2**27

FLAGS = {"fdatasync": ["conv=fdatasync"], "fsync": ["conv=fsync"], "none": []}
SLOWEST_BYTES = 20e6  # a second


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `dd`."""

    size: int = field(default=2**30, metadata={"help": "of the file", "unit": "bytes"})
    block_size: int = field(default=2**16, metadata={"help": "of a write", "unit": "bytes"})
    sync: Literal["fdatasync", "fsync", "none"] = field(
        default="fdatasync",
        metadata={"help": "what it waits for at the end: that the disk has the data", "unit": ""},
    )
    direct: bool = field(
        default=False, metadata={"help": "past the page cache (O_DIRECT)", "unit": ""}
    )
    warmup_rewrites: int = field(
        default=1, metadata={"help": "before the measured ones", "unit": "1"}
    )
    rewrites: int = field(
        default=5, metadata={"help": "how often the file is written anew", "unit": "1"}
    )
    storage: Storage = field(default="disk", metadata=ABOUT)

    def __post_init__(self) -> None:
        """Refuses a size that is no number of blocks."""
        self.at_least(1, "size", "block_size", "rewrites")
        self.at_least(0, "warmup_rewrites")
        if self.size % self.block_size:
            rule = f"must be a multiple of the block size, {self.block_size}"
            raise _options.refuse("size", rule, 2**20, self.size)
        if self.direct and self.block_size % 512:
            rule = "a write past the page cache is a multiple of 512 bytes"
            raise _options.refuse("block_size", rule, 2**16, self.block_size)


def estimate(options: Options, _cores: float) -> float:
    """Seconds, on a slow disk."""
    return 2.0 + (options.warmup_rewrites + options.rewrites) * options.size / SLOWEST_BYTES


def run(options: Options, context: Context) -> None:
    """Writes the file as often as asked, each time anew: a step each."""
    tool = Tool.find("dd", FAMILY, KNOWN, ask=["dd", "--version"])
    context.environment["dd"] = tool.version
    where = folder(context, options.storage)
    context.mark("first_step_begin")
    device, busy, ran = Device(where), 0.0, 0.0
    took = []
    for number in range(1, options.warmup_rewrites + options.rewrites + 1):
        (where / "bigfile").unlink(missing_ok=True)
        before = device.busy()
        said = tool.run(arguments(options), where)
        seconds = parse(tool.text(said.stderr), options.size)
        warm = number <= options.warmup_rewrites
        late = said.seconds - seconds
        row = ("warmup" if warm else "measured", number, 0, said.begin + late, said.wall + late)
        context.steps.add((*row, options.size, None, 0.0, seconds, 0.0, seconds))
        if not warm:
            took.append(seconds)
            busy, ran = busy + device.busy() - before, ran + said.seconds
    context.scalar("bandwidth", options.size * len(took) / sum(took))
    context.scalar("write_median", statistics.median(took))
    context.scalar("write_min", min(took))
    context.scalar("write_max", max(took))
    tell_busy(context, busy, ran)


def arguments(options: Options) -> list[str]:
    """The command line."""
    size = f"bs={options.block_size}", f"count={options.size // options.block_size}"
    direct = ["oflag=direct"] if options.direct else []
    return ["dd", "if=/dev/zero", "of=bigfile", *size, *direct, *FLAGS[options.sync]]


def parse(text: Text, size: int) -> float:
    """Seconds that it wrote. OutputError names dd, its version and the line."""
    what = "bytes copied"
    pattern = r"^(\d+) bytes (?:\([^)]*\) )?copied, ([\d.]+(?:e-?\d+)?) s, "
    written, seconds = text.numbers(what, pattern)
    if written != size or not seconds:
        raise text.lacks(f"{size} bytes copied", f"{written:g} bytes in {seconds:g} s")
    return seconds
