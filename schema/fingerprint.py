"""What the keys of a host's fingerprint mean, whoever captured them."""

from __future__ import annotations

from strata import runtimes
from strata.fields import Field
from strata.host.fingerprint import FAMILIES, FIELDS


def field(key: str) -> Field:
    """The meaning of a key; an unknown one counts as a confound."""
    known = FIELDS | runtimes.fields()
    if key in known:
        return known[key]
    family, _, rest = key.partition(".")
    name, _, leaf = rest.rpartition(".")  # names of network cards may hold dots
    found = FAMILIES.get((family, leaf)) if name else None
    return Field(found.label.format(name), found.unit, found.impact) if found else Field(key)
