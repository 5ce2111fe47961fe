"""The frames of a report as files that other tools read: CSV and Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from .tables import Tables

FRAMES = ("trials", "summary", "comparisons", "overall")


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
    """UTF-8, a header, dots for decimals, all digits, empty where there is no value."""
    return frame.to_csv(index=False, lineterminator="\n").encode()


def parquet(frame: pd.DataFrame) -> bytes:
    """The same table with its types. A column of mixed types (levels may be) becomes text."""
    plain = frame.copy()
    for name in plain.columns:
        if plain[name].map(type).nunique() > 1 and plain[name].dtype == object:
            plain[name] = plain[name].map(lambda value: None if value is None else str(value))
    buffer = io.BytesIO()
    plain.to_parquet(buffer, index=False)
    return buffer.getvalue()
