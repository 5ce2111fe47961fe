"""What a cloud has of a testbed: everything there bears the testbed's name."""

from __future__ import annotations

from typing import Any

PREFIX = "strata-"


def name(testbed: str, *parts: str) -> str:
    """Of what is made for the testbed."""
    return "-".join([f"{PREFIX}{testbed}", *parts])


def found(cloud: Any, testbed: str) -> dict[str, list[str]]:
    """Names by kind, of all that is there."""
    listed = {
        "servers": cloud.compute.servers(details=False),
        "flavors": cloud.compute.flavors(details=False, is_public=None),
        "images": cloud.image.images(),
        "keypairs": cloud.compute.keypairs(),
    }
    mine = name(testbed)
    return {
        kind: names
        for kind, items in listed.items()
        if (names := sorted(item.name for item in items if _is_of(item.name, mine)))
    }


def _is_of(given: str | None, mine: str) -> bool:
    return given is not None and (given == mine or given.startswith(f"{mine}-"))
