"""What the keys of a host mean, whoever captured them: of its fingerprint, and of its lock."""

from __future__ import annotations

from strata import runtimes
from strata.fields import Field
from strata.host import built
from strata.host.fingerprint import FAMILIES, FIELDS, HARDWARE


def field(key: str) -> Field:
    """The meaning of a key; an unknown one counts as a confound."""
    known = FIELDS | runtimes.fields()
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


def _parts(key: str) -> tuple[str, str, str]:
    """Family, name and leaf of FAMILY.NAME.LEAF; names of network cards may hold dots."""
    family, _, rest = key.partition(".")
    name, _, leaf = rest.rpartition(".")
    return family, name, leaf
