"""Durations, sizes and sets of CPUs as people write them."""

from __future__ import annotations

import re

from .errors import Refused

SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
CPUS = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")  # one, or from one to another
MOST_CPUS = 8192  # CONFIG_NR_CPUS of the largest kernels
BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def seconds(text: str | float) -> float:
    """Seconds of `90`, `"90s"`, `"15m"`, `"2h"`, `"1d"`. Raises Refused."""
    return _parse(str(text), SECONDS, "a duration is a number with s, m, h or d", "15m")


def size(text: str | float) -> int:
    """Bytes of `1048576`, `"512M"`, `"8G"` (powers of two). Raises Refused."""
    text = re.sub(r"(?i)i?b$", "", str(text).strip())
    return int(_parse(text, BYTES, "a size is a number with K, M, G or T (powers of two)", "8G"))


def duration(value: float) -> str:
    """Seconds for people: `42 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(value)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"  # noqa: PLR2004
    return f"{minutes // 60} h {minutes % 60} min"


def bytes_text(value: float) -> str:
    """Bytes for people: `512 MiB`, `7.9 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:  # noqa: PLR2004
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"


def _parse(text: str, units: dict[str, int], rule: str, example: str) -> float:
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if not match or match[2].lower() not in units or float(match[1]) <= 0:
        raise Refused(f"{rule}, above zero", example=example, given=repr(text[:80]))
    return float(match[1]) * units[match[2].lower()]


def cpu_set(text: str) -> frozenset[int]:
    """The CPUs of a set such as `0-3,8`. Raises ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        match = CPUS.fullmatch(part)
        if not match:
            raise ValueError(f"not a set of CPUs: {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < MOST_CPUS:
            raise ValueError(f"not a set of CPUs: {text!r}")
        found.update(range(first, last + 1))
    return frozenset(found)
