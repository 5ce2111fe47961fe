"""What a host is asked to do: the one type that carries it to all that runs a slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Order:
    """A slot's share of this host, as the arguments of `strata_trial` that have the same names."""

    slot: dict[str, Any]  # run, slot, hosts, trials
    host: str
    images: dict[str, dict[str, str]]  # by family
    dataset: dict[str, Any]
    reference: dict[str, Any]
    time_limit_s: float
    state_dir: Path
    addresses: dict[str, str] = field(default_factory=dict)
    key: str = field(default="", repr=False)
    places: dict[str, dict[str, str]] = field(default_factory=dict)
    judged: bool = True  # whether what else the host does decides anything

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Order:
        """From the arguments of the module; what is for the module alone is passed over."""
        told = {field.name: given[field.name] for field in fields(cls)}
        return cls(**{**told, "state_dir": Path(given["state_dir"])})
