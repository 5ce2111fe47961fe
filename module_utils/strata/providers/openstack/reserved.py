"""A lease of Blazar's, by which a cloud sets hosts aside for a testbed for some hours.

The SDK knows where the service is, and has no words for it: these are of its API, version 1.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from openstack import exceptions

from ...errors import Refused
from .found import RESERVATIONS, leases, name

LOOK_S = 1.0
# Of a lease: it gives its hosts, it never will, and it did.
ACTIVE, FAILED, OVER = "ACTIVE", "ERROR", "TERMINATED"
DATE = "%Y-%m-%d %H:%M"
SETTINGS = {"hours", "properties"}


@dataclass(frozen=True)
class Asked:
    """So many hosts for so many hours. `properties` say which, in Blazar's own words."""

    testbed: str
    hosts: int
    hours: float
    properties: str = ""

    def document(self, now: datetime) -> dict[str, Any]:
        """As Blazar is told. It counts in minutes."""
        reservation = {
            **{"resource_type": "physical:host", "min": self.hosts, "max": self.hosts},
            **{"hypervisor_properties": "", "resource_properties": self.properties},
        }
        return {
            "name": name(self.testbed),
            "start_date": "now",
            "end_date": (now + timedelta(hours=self.hours)).strftime(DATE),
            "reservations": [reservation],
            "events": [],
        }


def asked(testbed: str, hosts: int, said: Mapping[str, Any]) -> Asked:
    """What the inventory says of a lease. Raises Refused."""
    try:
        hours = float(said["hours"])
    except (KeyError, TypeError, ValueError):
        hours = 0.0
    if not hours > 0 or set(said) - SETTINGS:
        raise Refused(
            "a lease is for some hours, and of hosts with the properties that it names",
            example='openstack_lease: {hours: 6, properties: \'["=", "$node_type", "gpu"]\'}',
            given=f"openstack_lease: {dict(said)}",
            then="say for how long the testbed needs its hosts; a lease that is there is given by "
            "its reservation: openstack_hints: {reservation: ID}",
        )
    return Asked(testbed, hosts, hours, str(said.get("properties", "")))


def check(cloud: Any) -> None:
    """Raises Refused where the cloud leases nothing."""
    if not cloud.has_service(RESERVATIONS):
        raise Refused(
            "a cloud that leases hosts has a reservation service, Blazar",
            given=f"openstack_lease; the catalogue of the cloud has no service {RESERVATIONS!r}",
            then="leave openstack_lease out: without leases the scheduler finds hosts by itself",
        )


def find(cloud: Any, testbed: str) -> list[dict[str, Any]]:
    """The testbed's leases."""
    return [lease for lease in leases(cloud) if lease["name"] == name(testbed)]


def have(cloud: Any, wanted: Asked, patience_s: float) -> tuple[str, bool]:
    """The reservation of the testbed's lease, once that is active; and whether it was made now.

    One that is over, or failed, is ended and made anew. Raises Refused.
    """
    deadline, made = time.monotonic() + patience_s, False
    while True:
        there = find(cloud, wanted.testbed)
        for lease in there:
            if lease["status"] in (OVER, FAILED):
                if made:
                    raise _not_given(lease["status"], wanted)
                _end(cloud, lease)
        living = [lease for lease in there if lease["status"] not in (OVER, FAILED)]
        if not living:
            made = True
            body = wanted.document(datetime.now(UTC))
            exceptions.raise_from_response(cloud.reservation.post("/leases", json=body))
        elif living[0]["status"] == ACTIVE:
            return _reservation(living[0], wanted), made
        if time.monotonic() > deadline:
            status = living[0]["status"] if living else "not there"
            raise _not_given(f"{status} after {patience_s:.0f} s", wanted)
        time.sleep(LOOK_S)


def end(cloud: Any, testbed: str) -> bool:
    """No lease of the testbed is there any more; whether one was."""
    there = find(cloud, testbed)
    for lease in there:
        _end(cloud, lease)
    return bool(there)


def _reservation(lease: Mapping[str, Any], wanted: Asked) -> str:
    """Its id. Raises Refused where it is of other hosts than are asked."""
    (reservation,) = lease["reservations"]
    given = (int(reservation["max"]), reservation["resource_properties"])
    if given != (wanted.hosts, wanted.properties):
        raise Refused(
            "a lease that is there is of the hosts that the inventory asks, as none is changed",
            given=f"{lease['name']}: asked {wanted.hosts} with {wanted.properties or 'any'} "
            f"properties; it has {given[0]} with {given[1] or 'any'}",
            then="take the testbed down first (playbooks/teardown.yml), or ask for what is there",
        )
    return str(reservation["id"])


def _end(cloud: Any, lease: Mapping[str, Any]) -> None:
    exceptions.raise_from_response(cloud.reservation.delete(f"/leases/{lease['id']}"))


def _not_given(how: str, wanted: Asked) -> Refused:
    return Refused(
        "a lease that was asked for becomes active within openstack_patience",
        given=f"{name(wanted.testbed)}, of {wanted.hosts} hosts for {wanted.hours:g} h: {how}",
        then="openstack reservation lease show NAME says more; ask for fewer hosts or hours, or "
        "for another time",
    )
