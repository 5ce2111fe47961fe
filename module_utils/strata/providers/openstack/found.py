"""What a cloud has of a testbed: everything there bears the testbed's name."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from openstack import exceptions

PREFIX = "strata-"
RESERVATIONS = "reservation"  # Blazar, as a catalogue calls it


def name(testbed: str, *parts: str) -> str:
    """Of what is made for the testbed."""
    return "-".join([f"{PREFIX}{testbed}", *parts])


TAG = "strata_testbed"


def found(cloud: Any, testbed: str) -> dict[str, dict[str, str]]:
    """By kind, the name of each thing that is there by its id.

    A server is the testbed's by its metadata, too, whatever somebody calls it, and so are nodes and
    allocations of bare metal. Floating addresses are by their descriptions. A cloud without bare
    metal has none, nor has one without reservations a lease.
    """
    listed = {
        "servers": cloud.compute.servers(),
        "flavors": cloud.compute.flavors(details=False, is_public=None),
        "addresses": cloud.network.ips(),
        "security_groups": cloud.network.security_groups(),
        "images": cloud.image.images(),
        "keypairs": cloud.compute.keypairs(),
        **(_metal(cloud) if cloud.has_service("baremetal") else {}),
        "leases": (SimpleNamespace(**lease) for lease in leases(cloud)),
    }
    mine = name(testbed)
    return {
        kind: names
        for kind, items in listed.items()
        if (names := {item.id: item.name for item in items if _is_of(item, testbed, mine)})
    }


def leases(cloud: Any) -> list[dict[str, Any]]:
    """All of the project's, of Blazar's API, version 1, for which the SDK has no words; none where
    the cloud leases nothing.
    """
    if not cloud.has_service(RESERVATIONS):
        return []
    answer = cloud.reservation.get("/leases")
    exceptions.raise_from_response(answer)
    return list(answer.json()["leases"])


def _metal(cloud: Any) -> dict[str, Iterable[Any]]:
    ironic = cloud.baremetal
    try:
        nodes, allocations = list(ironic.nodes(details=True)), list(ironic.allocations())
    except exceptions.ForbiddenException:  # a project that is given none
        return {}
    return {"nodes": nodes, "allocations": allocations}


def _is_of(item: Any, testbed: str, mine: str) -> bool:
    called = (item.name or "", getattr(item, "description", None) or "")
    notes = (getattr(item, kind, None) or {} for kind in ("metadata", "extra"))
    tagged = any(note.get(TAG) == testbed for note in notes)
    return tagged or any(one == mine or one.startswith(f"{mine}-") for one in called)
