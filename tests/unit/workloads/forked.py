"""Workloads as processes of their own that have TensorFlow from their beginning.

Its import is nine tenths of the CPU time of a small training. A server imports it once for all
processes that a worker of pytest starts, and forks.
"""

import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.unit.workloads.preload", "tests.unit.workloads.forked"])


def start(name: str, config: Path, out: Path, said: Path) -> BaseProcess:
    """`python -m workloads NAME`, begun, with what it says in the file `said`."""
    arguments = [name, "--config", str(config), "--out", str(out)]
    process = SERVER.Process(target=_run, args=(arguments, str(said)))
    process.start()
    return process


def _run(arguments: list[str], said: str) -> None:
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), sys.stderr.fileno())
    from workloads.__main__ import main  # noqa: PLC0415  it notes when it was imported

    sys.exit(main(arguments))
