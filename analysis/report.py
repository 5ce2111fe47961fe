"""The report of a run: page and tables in RUN/report, and a summary for the terminal."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from . import export, page
from . import tables as report_tables
from .load import load
from .terminal import summary


def make(run_dir: Path | str) -> list[str]:
    """Write RUN/report and return the summary, a line each.

    The same run gives the same bytes. Raises SchemaError or AnalysisError for a run that cannot
    be reported, before anything is written.
    """
    tables = report_tables.build(load(Path(run_dir)))
    html = page.render(tables)
    folder = Path(run_dir) / "report"
    folder.mkdir(exist_ok=True)
    export.write(tables, folder, replace)
    index = folder / "index.html"
    replace(index, html.encode())
    return [*summary(tables), f"report: {index}"]


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: a reader sees the old file or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
