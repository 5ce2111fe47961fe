"""What a testbed was built of, and what came of building it again: testbed.lock and rebuilds/.

`docs/rebuild.md` says what each key means. Both are documents of a run, with its schema.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from strata.identity import digest

from .documents import Count, Document, Image, Number, SchemaError, Version, Versioned, parse, read
from .fingerprint import field, unobserved

FILE, FOLDER = "testbed.lock", "rebuilds"


class LockedHost(Document):
    """`placement` is what its provider was asked for, nothing of a host that was there."""

    provider: str
    placement: dict[str, Any]
    hardware: dict[str, Any]
    software: dict[str, Any]

    def values(self) -> dict[str, Any]:
        """All of it by flat keys."""
        placed = {f"placement.{key}": value for key, value in self.placement.items()}
        return {"provider": self.provider, **placed, **self.hardware, **self.software}


class Lock(Versioned):
    testbed: str
    made: str
    strata: Version
    images: list[Image]
    components: dict[str, str]  # what clusters are made of, by version
    hosts: dict[str, LockedHost]
    digest: str

    def values(self) -> dict[str, dict[str, Any]]:
        """What must be equal, by host; what the whole testbed shares under ''."""
        images = {f"image.{image.family}": image.digest for image in self.images}
        shared = images | {f"component.{name}": v for name, v in self.components.items()}
        return {"": shared} | {name: host.values() for name, host in self.hosts.items()}

    def identity(self) -> str:
        """The digest over all in which a difference would be a confound."""
        weighty = {
            host: {key: v for key, v in values.items() if field(key).impact == "confound"}
            for host, values in self.values().items()
        }
        return digest(weighty)


class Difference(Document):
    host: str  # '' for what all share
    key: str
    label: str
    locked: Any
    found: Any
    kind: Literal["allowed", "confound"]


class Rebuild(Versioned):
    number: Count
    began: str
    seconds: dict[str, Number]  # what each part took: down, up
    locked: str  # the lock's digest
    digest: str  # that of the testbed as it was built again
    differences: list[Difference]
    instances: dict[str, str]  # of the hosts that a provider made


def differences(locked: Lock, found: Lock) -> list[Difference]:
    """What differs, confounds first; the values of a testbed that was built again are `found`."""
    ours, theirs = locked.values(), found.values()
    rows = [
        Difference(
            host=host,
            key=key,
            label=field(key).label,
            locked=ours.get(host, {}).get(key),
            found=theirs.get(host, {}).get(key),
            kind="allowed" if field(key).impact == "allowed" else "confound",
        )
        for host in sorted({*ours, *theirs})
        for key in sorted({*ours.get(host, {}), *theirs.get(host, {})})
        if ours.get(host, {}).get(key) != theirs.get(host, {}).get(key)
        or unobserved(ours.get(host, {}).get(key))
    ]
    return sorted(rows, key=lambda row: row.kind, reverse=True)


def read_lock(path: Path) -> Lock:
    """The lock in the file `path`. Raises SchemaError, also where it is not as it was written."""
    lock = read(Lock, path)
    if lock.identity() != lock.digest:
        raise SchemaError(f"{path} is not what was written: its digest is of other content")
    return lock


def validate_lock(document: dict[str, Any]) -> Lock:
    return parse(Lock, document, FILE)


def validate_rebuild(document: dict[str, Any]) -> Rebuild:
    return parse(Rebuild, document, "a rebuild")


def read_rebuilds(run: Path) -> list[Rebuild]:
    """Those of a run, in the order in which they were made. Raises SchemaError."""
    found = [read(Rebuild, path) for path in (run / FOLDER).glob("*.json")]
    return sorted(found, key=lambda rebuild: rebuild.number)
