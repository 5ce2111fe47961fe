"""HPL: floating-point speed by the solution of a dense system of linear equations.

The HPL of HPC Challenge (`hpcc`), the real tool of the image, as one process with as many threads
of OpenBLAS as the trial has CPUs. It solves the system of order `order` and checks the residual: a
solution that is not one fails the trial. hpcc also runs its other tests, on less memory; two of
them are told, a product of matrices (DGEMM) and STREAM.

What bounds it is the floating-point units of the cores. `of_dgemm` says how near it came to the
product, whose order is 0.58 of its own: near 1 for large orders, and at times above it for small.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context, FailureError
from workloads._tool import OutputError, Text, Tool, tell_steps

KNOWN = "hpcc 1.5.0"
COMMON = ("order", "block")
ITEMS = "FLOP"
METRICS = (
    Metric("flops", "Solving", "FLOP/s", "higher", headline=True),
    Metric("solve_time", "Time to solve", "s", "lower"),
    Metric("residual", "Scaled residual", "1"),
    Metric("dgemm_flops", "Product of matrices", "FLOP/s", "higher"),
    Metric("of_dgemm", "Solving / product of matrices", "1", "higher"),
    Metric("triad", "STREAM triad, one thread", "bytes/s", "higher"),
)
TOPOLOGY, PORTS = ONE, ()
FAMILY = "tools"
WRITABLE = True
MEMORY = 2**28

GIVEN, REPORT = "hpccinf.txt", "hpccoutf.txt"
DOUBLE = 8  # bytes
ROOM = 1.25  # of the matrix: what hpcc needs beside it
MEMINFO = Path("/proc/meminfo")
SLOWEST_FLOPS = 1e9  # a second on one core
OTHER_TESTS = 4.0  # times as long as solving takes, on few cores
# As the package's example has it, but for what is filled in and a grid of one process.
INPUT = """\
HPLinpack benchmark input file
Strata
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{order}      Ns
1            # of NBs
{block}      NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
1            Ps
1            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
{alignment}  memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `hpl`."""

    order: int = field(
        default=5000, metadata={"help": "of the matrix: 8 bytes times its square", "unit": "1"}
    )
    block: int = field(
        default=128, metadata={"help": "columns that are factored at a time", "unit": "1"}
    )
    alignment: int = field(
        default=8,
        metadata={
            "help": "the leading dimension of the matrix is the next multiple of so many numbers",
            "unit": "1",
        },
    )

    def __post_init__(self) -> None:
        """Refuses what HPL cannot solve."""
        self.at_least(100, "order")  # hpcc's other tests have no smaller one
        self.at_least(1, "block", "alignment")
        self.at_most(self.order, "block")


def estimate(options: Options, cores: float) -> float:
    """Seconds, with the other tests."""
    return 10.0 + OTHER_TESTS * work(options.order) / (SLOWEST_FLOPS * max(cores, 1.0))


def work(order: int) -> float:
    """FLOP of a solution, as HPL counts them."""
    return 2 / 3 * order**3 + 3 / 2 * order**2


def run(options: Options, context: Context) -> None:
    """Solves, and tells what hpcc says of it."""
    # hpcc does not say its version before it has run: the distribution does.
    tool = Tool.find("hpcc", FAMILY, KNOWN, ask=["dpkg-query", "--show", "hpcc"])
    context.environment["hpcc"] = tool.version
    _check_memory(options, MEMINFO.read_text())
    threads = context.cpus or len(os.sched_getaffinity(0))
    context.environment["threads"] = threads
    assert context.scratch is not None  # noqa: S101 - it is WRITABLE
    folder = context.scratch
    given = INPUT.format(order=options.order, block=options.block, alignment=options.alignment)
    (folder / GIVEN).write_text(given)
    context.mark("first_step_begin")
    said = tool.run(["env", f"OPENBLAS_NUM_THREADS={threads}", "hpcc"], folder)
    report = folder / REPORT
    if not report.is_file():
        raise OutputError(f"{tool.version}: it left no {REPORT}; it said: {said.stderr[-200:]!r}")
    found = parse(tool.text(report.read_text()), options)
    for name, value in found.items():
        context.scalar(name, value)
    tell_steps(context, said, work(options.order), found["solve_time"])


def _check_memory(options: Options, meminfo: str) -> None:
    """FailureError where the matrix would not fit: the host would swap, or kill."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    needed = ROOM * DOUBLE * options.order**2
    if match and int(match[1]) * 1024 < needed:
        raise FailureError(
            f"order: {options.order} needs {needed / 2**30:.1f} GiB of memory (example: order: "
            f"{int((int(match[1]) * 1024 / ROOM / DOUBLE) ** 0.5)}); there are "
            f"{int(match[1]) / 2**20:.1f} GiB"
        )


def parse(text: Text, options: Options) -> dict[str, float]:
    """Its figures by the names of the metrics.

    OutputError names hpcc, its version and the line, also where the residual is too large.
    """
    version = text.numbers(
        "HPC Challenge Benchmark version", r"HPC Challenge Benchmark version (\d+)\.(\d+)\."
    )
    passed = r"^\|\|Ax-b\|\|_oo/\(.*\)=\s+([\d.e+-]+) \.+ PASSED$"
    residual = text.number("||Ax-b||_oo/", passed)
    summary = text.within("Begin of Summary section.", "End of Summary section.")

    def said(name: str) -> float:
        return summary.number(f"{name}=", rf"^{name}=([\d.e+-]+)$")

    if not said("Success") or said("HPL_N") != options.order:
        raise summary.lacks(
            f"HPL_N={options.order}", f"HPL_N={said('HPL_N'):g}, Success={said('Success'):g}"
        )
    found = {
        "flops": 1e12 * said("HPL_Tflops"),
        "solve_time": said("HPL_time"),
        "residual": residual,
        "dgemm_flops": 1e9 * said("SingleDGEMM_Gflops"),
        "triad": 1e9 * said("SingleSTREAM_Triad"),
    }
    for name in ("flops", "solve_time", "dgemm_flops", "triad"):
        if not found[name]:
            raise summary.lacks("HPL_Tflops=", f"{name} is 0, of hpcc {version}")
    return found | {"of_dgemm": found["flops"] / found["dgemm_flops"]}
