"""How long the hosts of a run took to be made, and to go."""

from __future__ import annotations

import pandas as pd

from schema.lives import Life

from .load import Loaded

# By the name of a span its column.
COLUMNS = {span: f"{span}_s" for span in Life.SPANS}


def frame(loaded: Loaded) -> pd.DataFrame:
    """A row an instance: host, provider, instance, and seconds of each span, NaN where unknown."""
    rows = [
        {
            **{"host": life.host, "provider": life.provider, "instance": life.instance},
            **{column: life.seconds(span) for span, column in COLUMNS.items()},
        }
        for life in loaded.lives
    ]
    columns = ["host", "provider", "instance", *COLUMNS.values()]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(COLUMNS.values(), float))
