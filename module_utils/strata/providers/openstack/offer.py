"""What a cloud would give, asked before anything is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import Refused, nearest

MIB = 2**20
DEVICE = {"alias", "count", "product_id", "vendor_id"}


@dataclass(frozen=True)
class Size:
    """Of a server: virtual CPUs, memory in MiB and disk in GB."""

    vcpus: int
    memory: int
    disk: int


def check_named(kind: str, name: str, known: Iterable[str], setting: str) -> None:
    """Raises Refused unless the cloud has a `kind` of that name."""
    known = list(known)
    if name not in known:
        raise Refused(
            f"the cloud has the {kind} that the testbed names",
            example=f"{setting}: {known[0]}" if known else "",
            given=f"{setting}: {name}",
            then=nearest(name, known) if known else f"the project sees no {kind} at all",
        )


def check_groups(cloud: Any, groups: Iterable[str], network: str, *, filters: bool) -> None:
    """Raises Refused unless the cloud has these security groups, and the network takes any."""
    groups = list(groups)
    known = {group.name for group in cloud.network.security_groups()} if groups else set()
    for group in groups:
        check_named("security group", group, sorted(known), "openstack_security_groups")
    if groups and not filters:
        raise Refused(
            "servers have security groups where their network filters",
            given=f"openstack_security_groups: {groups}; {network} has port security switched off",
            then="leave openstack_security_groups out, or have the network's port security "
            "switched on",
        )


def check_device(host: str, device: Mapping[str, Any]) -> None:
    """Raises Refused unless the device says by what the cloud and by what the guest knows it."""
    wrong = {"count", *device} ^ DEVICE
    ids = [str(device.get(name, "")) for name in ("vendor_id", "product_id")]
    if device and (wrong or not all(re.fullmatch(r"[0-9a-fA-F]{4}", one) for one in ids)):
        raise Refused(
            "a device is known by the cloud's alias, and by the vendor and product that the guest "
            "must find, four digits in base 16",
            example='openstack_device: {alias: h100, vendor_id: "10de", product_id: "2330"}',
            given=f"{host}: {dict(device)}",
            then="lspci -nn shows both numbers where the device is; put them into quotes",
        )


def check_same(host: str, there: Any, flavor: str, asked: Size, specs: Mapping[str, Any]) -> None:
    """Raises Refused where a server that is there is not what is asked; `there` is its flavor."""
    found = (there.original_name,) if flavor else (*_sizes(there), dict(there.extra_specs))
    given = {key: str(value) for key, value in specs.items()}
    wanted = (flavor,) if flavor else (asked.vcpus, asked.memory, asked.disk, given)
    if found != wanted:
        raise Refused(
            "a server that is there is what the inventory asks, as none is changed",
            given=f"{host}: asked {', '.join(map(str, wanted))}; it has "
            f"{', '.join(map(str, found))}",
            then="take the testbed down first (playbooks/teardown.yml), or ask for what is there",
        )


def _sizes(flavor: Any) -> tuple[int, int, int]:
    return flavor.vcpus, flavor.ram, flavor.disk


def check_quota(limits: Mapping[str, int], sizes: Iterable[Size]) -> None:
    """Raises Refused where the servers are more than the project may still make.

    `limits` are those of Nova by its names, and -1 is no limit.
    """
    sizes = list(sizes)
    asked = {
        "instances": len(sizes),
        "total_cores": sum(size.vcpus for size in sizes),
        "total_ram": sum(size.memory for size in sizes),
    }
    for name, count in asked.items():
        most, used = limits[name], limits[f"{name}_used"]
        if most >= 0 and used + count > most:
            raise Refused(
                "what the testbed asks is within the project's quota",
                given=f"{name}: {count} more, {used} of {most} are used",
                then="ask for less, delete what is not needed (servers that failed count), "
                "or have the quota raised",
            )


def limits(cloud: Any) -> dict[str, int]:
    """The project's limits of servers, and what is used of each."""
    absolute = cloud.compute.get_limits().absolute
    names = ("instances", "total_cores", "total_ram")
    return {key: getattr(absolute, key) for name in names for key in (name, f"{name}_used")}


def size(cloud: Any, flavor: str, asked: Size) -> Size:
    """That of the flavor, or what is asked where none is named. Raises Refused."""
    if not flavor:
        return asked
    flavors = {found.name: found for found in cloud.compute.flavors()}
    check_named("flavor", flavor, flavors, "openstack_flavor")
    return Size(*_sizes(flavors[flavor]))
