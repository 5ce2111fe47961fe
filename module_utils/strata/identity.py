"""Names that follow from content: canonical JSON and its digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """JSON with one spelling for one value: sorted keys, no spaces, finite numbers only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def short(value: Any) -> str:
    """The first 12 hex digits: enough for every cell of a plan (collision below 1e-8 at 1,000)."""
    return digest(value)[:12]
