"""The frames of a report as files that other tools read: CSV and Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from .shown import shown
from .tables import Tables

FRAMES = ("trials", "summary", "comparisons", "overall", "struck", "lives")
# What begins a formula in a spreadsheet.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write(tables: Tables, folder: Path, put: Callable[[Path, bytes], None]) -> list[Path]:
    """Write every frame as NAME.csv and NAME.parquet with `put`; returns the paths."""
    paths = []
    for name in FRAMES:
        frame: pd.DataFrame = getattr(tables, name)
        for suffix, data in (("csv", csv(frame)), ("parquet", parquet(frame))):
            path = folder / f"{name}.{suffix}"
            put(path, data)
            paths.append(path)
    return paths


def csv(frame: pd.DataFrame) -> bytes:
    """UTF-8, a header, dots for decimals, all digits, empty where there is no value.

    A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    plain = frame.map(_inert).rename(columns=_inert)
    return plain.to_csv(index=False, lineterminator="\n").encode()


def _inert(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return f"'{shown(value)}" if value.startswith(FORMULA) else shown(value)


def parquet(frame: pd.DataFrame) -> bytes:
    """The same table with its types. A column of mixed types, or of none that a file knows,
    becomes text: levels may be so."""
    plain = frame.copy()
    for name in plain.columns:
        if plain[name].dtype == object and not all(isinstance(value, str) for value in plain[name]):
            plain[name] = plain[name].map(lambda value: None if value is None else str(value))
    buffer = io.BytesIO()
    plain.to_parquet(buffer, index=False)
    return buffer.getvalue()
