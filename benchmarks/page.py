"""What a page costs: CPU seconds, peak memory and size, of this commit and of the one before.

    python benchmarks/page.py [--trials 2000] [--steps 500] [--rounds 3] [--against COMMIT]

Makes a run of that size, and reports it with both versions in turn, each in a process of its own:
a machine whose speed moves moves both sides of the ratio. Says also whether the tables of both are
equal: figures that differ are no speed-up.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

REPO = Path(__file__).parents[1]
sys.path.insert(0, str(REPO))  # the tests know how to write a run, and are no package

from tests.unit.analysis.synthetic import (  # noqa: E402
    DOCKER,
    NATIVE,
    WARMUP,
    Effect,
    Synthetic,
    cells,
)

FRAMES = ("comparisons", "overall", "summary")
REPEATS = 20


@dataclass(frozen=True)
class Cost:
    """Of one report: CPU (s), peak resident memory (MiB), size of the page (MB)."""

    cpu: float
    memory: float
    size: float

    def __str__(self) -> str:
        return f"{self.cpu:6.1f} CPU s  {self.memory:6.0f} MiB  page {self.size:6.2f} MB"


def main() -> None:
    """Make the run, report it, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", default="HEAD~1", help="a commit; its analysis is compared")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = made(folder / "run", options.trials, options.steps)
        before = checked_out(folder / "before", options.against)
        ratios, equal = [], True
        for _ in range(options.rounds):
            then, old = cost(before, run), tables(run)
            now, new = cost(REPO, run), tables(run)
            print(f"{options.against:>10}: {then}\n{'here':>10}: {now}")
            ratios.append(now.cpu / then.cpu)
            equal = equal and same(old, new)
        middle = statistics.median(ratios)
        print(f"CPU, here / {options.against}: {middle:.2f}; tables equal: {equal}")


def made(folder: Path, trials: int, steps: int) -> Path:
    """A run of as many native as Docker trials, each cell REPEATS times."""
    models = tuple(f"model{n}" for n in range(max(1, trials // (2 * REPEATS))))
    own = cells(NATIVE, DOCKER, models=models)
    effects = {"docker": Effect(slower=1.08, startup=2.0)}
    return Synthetic(own, effects, repeats=REPEATS, steps=steps - WARMUP).write(folder)


def checked_out(folder: Path, commit: str) -> Path:
    """The files of a commit in `folder`."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=REPO, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


def cost(checkout: Path, run: Path) -> Cost:
    """Report `run` with the analysis of a checkout."""
    path = os.pathsep.join([str(checkout), str(checkout / "module_utils")])
    process = subprocess.Popen(
        [sys.executable, "-m", "analysis", "report", str(run)],
        cwd=checkout, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the report of {checkout} ended with {process.returncode}")
    page = (run / "report" / "index.html").stat().st_size
    return Cost(cpu(used), used.ru_maxrss / 1024, page / 1e6)


def cpu(used: resource.struct_rusage) -> float:
    """Seconds, of user and kernel."""
    return used.ru_utime + used.ru_stime


def tables(run: Path) -> dict[str, pd.DataFrame]:
    """What the last report says, by name."""
    return {name: pd.read_parquet(run / "report" / f"{name}.parquet") for name in FRAMES}


def same(first: dict[str, pd.DataFrame], second: dict[str, pd.DataFrame]) -> bool:
    """To twelve digits: the last ones depend on the number of threads."""
    try:
        for name in FRAMES:
            pd.testing.assert_frame_equal(first[name], second[name], rtol=1e-12)
    except AssertionError:
        return False
    return True


if __name__ == "__main__":
    main()
