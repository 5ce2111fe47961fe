"""What a cloud has of a testbed: everything there bears the testbed's name."""

from __future__ import annotations

from typing import Any

PREFIX = "strata-"


def name(testbed: str, *parts: str) -> str:
    """Of what is made for the testbed."""
    return "-".join([f"{PREFIX}{testbed}", *parts])


TAG = "strata_testbed"


def found(cloud: Any, testbed: str) -> dict[str, dict[str, str]]:
    """By kind, the name of each thing that is there by its id.

    A server is the testbed's by its metadata, too, whatever somebody calls it.
    """
    listed = {
        "servers": cloud.compute.servers(),
        "flavors": cloud.compute.flavors(details=False, is_public=None),
        "images": cloud.image.images(),
        "keypairs": cloud.compute.keypairs(),
    }
    mine = name(testbed)
    return {
        kind: names
        for kind, items in listed.items()
        if (names := {item.id: item.name for item in items if _is_of(item, testbed, mine)})
    }


def _is_of(item: Any, testbed: str, mine: str) -> bool:
    called = item.name or ""
    tagged = (getattr(item, "metadata", None) or {}).get(TAG) == testbed
    return tagged or called == mine or called.startswith(f"{mine}-")
