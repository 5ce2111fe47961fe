"""How long the hosts of a run took to be made, and to go."""

from __future__ import annotations

import pandas as pd

from .load import Loaded

# A column, and the moments that it leads from and to.
SPANS = (
    ("active_s", "asked", "active"),
    ("reached_s", "asked", "reached"),
    ("gone_s", "leaving", "gone"),
)


def frame(loaded: Loaded) -> pd.DataFrame:
    """A row an instance: host, provider, instance, and the seconds of SPANS, NaN where unknown."""
    rows = [
        {
            **{"host": life.host, "provider": life.provider, "instance": life.instance},
            **{name: life.seconds(begin, end) for name, begin, end in SPANS},
        }
        for life in loaded.lives
    ]
    columns = ["host", "provider", "instance", *(name for name, _, _ in SPANS)]
    kinds = {name: float for name, _, _ in SPANS}
    return pd.DataFrame(rows, columns=columns).astype(kinds)
