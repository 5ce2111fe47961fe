"""The keys of a host's fingerprint: what each is called, and what a difference in it means."""

from __future__ import annotations

from dataclasses import dataclass

# The value of a key that a host has and that cannot be seen from where modules run.
UNOBSERVED = "unobserved"


@dataclass(frozen=True)
class Field:
    """A key for people. A difference in it is a `confound` of a comparison, or `allowed`."""

    label: str
    unit: str = ""
    impact: str = "confound"
