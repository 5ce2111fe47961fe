"""The page that `compare` leaves: RUN_B/report/against-RUN_A.html."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import page, text, two_runs
from .differences import differences
from .load import Loaded, usable
from .report import replace
from .tables import records
from .two_runs import Runs


def write(left: Runs, right: Runs) -> Path:
    """Write the page into the report folder of the first of `right` and return its path.

    Raises UnequalDigests or NothingInCommon before anything is written.
    """
    html = page.fill("compare.html.j2", _context(left, right))
    # By the name of its folder, which is one; what run.json says is only text.
    path = right[0].folder / "report" / f"against-{left[0].folder.resolve().name}.html"
    path.parent.mkdir(exist_ok=True)
    replace(path, html.encode())
    return path


def _context(left: Runs, right: Runs) -> dict[str, Any]:
    found, changed = two_runs.compare(left, right), differences(left[0], right[0])
    parts = [
        {
            "title": metric.label,
            "better": metric.better,
            "headline": metric.headline,
            "rows": [_row(row, left, right) for row in records(rows)],
        }
        for metric, rows in (
            (right[0].metrics.get(str(n)), rows) for n, rows in found.groupby("metric", sort=False)
        )
    ]
    return {
        "left": left[0].run.run,
        "right": right[0].run.run,
        "notices": [
            *(f"{one.run.run}: {note}" for one in (*left, *right) for note in one.notices()),
            *(f"Only in {run}: {cell}." for run, cell in two_runs.unshared(left, right)),
        ],
        "parts": parts,
        "changed": records(changed),
        "confounds": int((changed["kind"] == "confound").sum()),
    }


def _row(row: dict[str, Any], left: Runs, right: Runs) -> dict[str, Any]:
    return {
        "cell": row["case"],
        "change": text.percent(row["ratio"]),
        "span": text.span(row["ratio_low"], row["ratio_high"]).strip("()") or "none",
        "compared": f"{row['compared']}, {two_runs.counted(row)}",
        "seen": text.detectable(row["detectable"]),
        "meaning": text.meaning(row) if row["needed"] else "",
        "verdict": row["verdict"],
        "links": [
            *(link for run in right for link in _links(run, row["cell"], right[0].folder)),
            *(link for run in left for link in _links(run, row["cell_left"], right[0].folder)),
        ],
    }


def _links(loaded: Loaded, cell: str, home: Path) -> list[dict[str, str]]:
    """The usable trials of a cell, with their records as seen from the report folder of `home`."""
    folder = Path(os.path.relpath(loaded.folder, home / "report")).as_posix()
    trials = usable(loaded.trials)
    return [
        {"trial": row["trial"], "href": f"{folder}/trials/{row['folder']}/record.json"}
        for row in records(trials[trials["cell"] == cell])
    ]
