"""What the keys of a host mean, whoever captured them: of its fingerprint, and of its lock."""

from __future__ import annotations

from typing import Any

from strata import runtimes
from strata.fields import UNOBSERVED, Field
from strata.host import built
from strata.host.fingerprint import FAMILIES, FIELDS, HARDWARE

# Families of which an agent has seen none (strata.host.agent), as one key each.
UNSEEN = {
    "nic": Field("network cards"),
    "gpu": Field("GPUs"),
    "package": Field("packages"),
    "sysctl": Field("kernel settings"),
    "module": Field("parameters of kernel modules"),
    "firmware": Field("firmware"),
}


def field(key: str) -> Field:
    """The meaning of a key; an unknown one counts as a confound."""
    known = FIELDS | runtimes.fields() | UNSEEN
    if key in known:
        return known[key]
    family, name, leaf = _parts(key)
    found = FAMILIES.get((family, leaf)) if name else None
    if found is None and (found := built.FAMILIES.get(family)):
        name = key.partition(".")[2]
    return Field(found.label.format(name), found.unit, found.impact) if found else Field(key)


def is_hardware(key: str) -> bool:
    """Whether a key is part of the hardware's profile, firmware included."""
    family, _, leaf = _parts(key)
    return key in HARDWARE or (family, leaf) in HARDWARE or family == "firmware"


def unobserved(value: Any) -> bool:
    """Whether a value, or one of several hosts, was not seen: it is then known to equal none."""
    return bool(value == UNOBSERVED or (isinstance(value, list) and UNOBSERVED in value))


def _parts(key: str) -> tuple[str, str, str]:
    """Family, name and leaf of FAMILY.NAME.LEAF; names of network cards may hold dots."""
    family, _, rest = key.partition(".")
    name, _, leaf = rest.rpartition(".")
    return family, name, leaf
