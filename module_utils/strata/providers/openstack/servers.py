"""Servers that are asked for, all at once: the cloud begins them side by side."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from openstack import exceptions

from .found import name

# Requests under way: a cloud's interface is shared.
AT_ONCE = 8


@dataclass(frozen=True)
class Wanted:
    """Of one server: its flavor and image by name, hints for the scheduler, and what it is told."""

    flavor: str
    image: str
    hints: Mapping[str, Any] = field(default_factory=dict)
    user_data: str = ""


@dataclass(frozen=True)
class Same:
    """What all servers of a testbed have, by names."""

    testbed: str
    network: str
    security_groups: Iterable[str] = ()


def ask(
    cloud: Any, same: Same, wanted: Mapping[str, Wanted]
) -> tuple[dict[str, str], dict[str, str]]:
    """By host the id of each server that the cloud takes on, and what it says to the others.

    Raises openstack's exceptions where the cloud does not answer.
    """
    flavors = _ids(cloud.compute.find_flavor, (one.flavor for one in wanted.values()))
    images = _ids(cloud.image.find_image, (one.image for one in wanted.values()))
    network = cloud.network.find_network(same.network, ignore_missing=False)

    def one(host: str) -> tuple[str, str]:
        asked = wanted[host]
        told = base64.b64encode(asked.user_data.encode()).decode()
        try:
            server = cloud.compute.create_server(
                name=name(same.testbed, host),
                image_id=images[asked.image],
                flavor_id=flavors[asked.flavor],
                networks=[{"uuid": network.id}],
                key_name=name(same.testbed),
                metadata={"strata_testbed": same.testbed, "strata_host": host},
                config_drive=True,
                **({"security_groups": groups} if groups else {}),
                **({"scheduler_hints": dict(asked.hints)} if asked.hints else {}),
                **({"user_data": told} if told else {}),
            )
        except exceptions.HttpException as error:
            return "", str(error)
        return str(server.id), ""

    groups = [{"name": group} for group in same.security_groups]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(wanted, pool.map(one, wanted), strict=True))
    return (
        {host: number for host, (number, _) in answers.items() if number},
        {host: said for host, (number, said) in answers.items() if not number},
    )


def _ids(find: Callable[..., Any], names: Iterable[str]) -> dict[str, str]:
    return {name: find(name, ignore_missing=False).id for name in set(names)}
