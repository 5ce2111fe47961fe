"""The report of a run: page and tables in RUN/report, and a summary for the terminal."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal

from . import export, page
from . import tables as report_tables
from .errors import AnalysisError
from .load import load
from .terminal import main_table, summary


def make(run_dir: Path | str, table: Literal["", "latex", "markdown"] = "") -> list[str]:
    """Write RUN/report and return the summary, a line each, or with `table` the main table alone.

    The same run gives the same bytes. The folder is whole or not there: it is written aside and
    renamed. Raises SchemaError or AnalysisError for a run that cannot be reported, before anything
    is written, and OSError where it cannot be written.
    """
    folder = Path(run_dir)
    tables = report_tables.build(load(folder))
    html = page.render(tables)
    final, aside = folder / "report", folder / ".report.part"
    if final.is_symlink() or (final.exists() and not final.is_dir()):
        raise AnalysisError(f"{final} is no folder that the analysis made; move it away")
    if aside.exists():
        shutil.rmtree(aside)
    aside.mkdir()
    export.write(tables, aside, replace)
    replace(aside / "index.html", html.encode())
    _put_in_place(aside, final)
    if table:
        return main_table(tables, table)
    return [*summary(tables), f"report: {final / 'index.html'}"]


def _put_in_place(aside: Path, final: Path) -> None:
    """Rename a folder to where an older one may be; what only the older one held stays."""
    old = final.with_name(".report.old")
    _bring_back(old, final)
    if final.exists():
        final.rename(old)
    aside.rename(final)
    _bring_back(old, final)


def _bring_back(old: Path, final: Path) -> None:
    """Move what `final` lacks out of `old`, which goes; a kill may have left it between renames."""
    if not old.exists():
        return
    if not final.exists():
        old.rename(final)
        return
    for path in old.iterdir():
        if not (final / path.name).exists():
            path.rename(final / path.name)
    shutil.rmtree(old)


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
