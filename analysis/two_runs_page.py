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


def write(left: Loaded, right: Loaded) -> Path:
    """Write the page into the report folder of `right` and return its path.

    Raises UnequalDigests or NothingInCommon before anything is written.
    """
    html = page.fill("compare.html.j2", _context(left, right))
    # By the name of its folder, which is one; what run.json says is only text.
    path = right.folder / "report" / f"against-{left.folder.resolve().name}.html"
    path.parent.mkdir(exist_ok=True)
    replace(path, html.encode())
    return path


def _context(left: Loaded, right: Loaded) -> dict[str, Any]:
    found, changed = two_runs.compare(left, right), differences(left, right)
    parts = [
        {
            "title": metric.label,
            "better": metric.better,
            "headline": metric.headline,
            "rows": [_row(row, left, right) for row in records(rows)],
        }
        for metric, rows in (
            (right.metrics.get(str(n)), rows) for n, rows in found.groupby("metric", sort=False)
        )
    ]
    return {
        "left": left.run.run,
        "right": right.run.run,
        "notices": [f"{one.run.run}: {note}" for one in (left, right) for note in one.notices()],
        "parts": parts,
        "changed": records(changed),
        "confounds": int((changed["kind"] == "confound").sum()),
    }


def _row(row: dict[str, Any], left: Loaded, right: Loaded) -> dict[str, Any]:
    return {
        "cell": row["case"],
        "change": text.percent(row["ratio"]),
        "span": text.span(row["ratio_low"], row["ratio_high"]).strip("()") or "none",
        "trials": f"{row['n']} / {row['n_baseline']}",
        "verdict": row["verdict"],
        "links": [
            *_links(right, row["cell"], right.folder),
            *_links(left, row["cell_baseline"], right.folder),
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
