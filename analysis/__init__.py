"""From a run folder to tables, figures and one page. See docs/results.md and docs/statistics.md."""

from __future__ import annotations

from pathlib import Path


def summary_lines(run_dir: Path | str) -> list[str]:
    """What a run answers, as lines of at most 100 columns; writes nothing.

    Raises SchemaError or AnalysisError. Imports late: `schema` needs no pandas.
    """
    from . import load, tables, terminal  # noqa: PLC0415

    return terminal.summary(tables.build(load.load(Path(run_dir)), judge_steps=False))
