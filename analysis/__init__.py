"""From a run folder to tables, figures and one page. See docs/results.md and docs/statistics.md."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

# Before any library of matrices is loaded: they are small here, and more threads would wait for
# each other, and burn the CPU meanwhile.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def summary_lines(run_dir: Path | str, table: Literal["", "latex", "markdown"] = "") -> list[str]:
    """What a run answers, as lines of at most 100 columns; writes nothing.

    With `table` its main table alone, in that language. Raises SchemaError or AnalysisError.
    Imports late: `schema` needs no pandas.
    """
    from . import load, tables, terminal  # noqa: PLC0415

    built = tables.build(load.load(Path(run_dir)), judge_steps=False)
    return terminal.main_table(built, table) if table else terminal.summary(built)
