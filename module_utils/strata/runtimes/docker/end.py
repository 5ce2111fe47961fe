"""A container that only stands on a network: where a trial's program would be, for a proof."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import Refused
from .images import REPOSITORY

# As a container of a trial, so that one that is forgotten is removed with those.
LABEL = "strata.trial"
SECONDS = 600  # it ends by itself, long after any proof
SLEEP = ["/usr/bin/python3", "-c", f"import time; time.sleep({SECONDS})"]
NAMESPACES = Path("/run/docker/netns")
PART = 10  # characters of a network's id in the name of the namespace that a swarm's has


def stand(network: str, address: str = "") -> dict[str, str]:
    """Start it: `{address, namespace, network_namespace}`; docs of the module strata_docker_end.

    Raises Refused where the engine does not do it, in its words.
    """
    remove(network)
    with _client() as client:
        configured = {network: client.api.create_endpoint_config(ipv4_address=address or None)}
        made = client.api.create_container(
            image=_image(client),
            command=SLEEP,
            name=_name(network),
            labels={LABEL: _name(network)},
            user="65534",
            host_config=client.api.create_host_config(
                network_mode=network, cap_drop=["ALL"], read_only=True
            ),
            networking_config=client.api.create_networking_config(configured),
        )
        client.api.start(made["Id"])
        told = client.api.inspect_container(made["Id"])
        number = client.api.inspect_network(network)["Id"][:PART]
    own = told["NetworkSettings"]["Networks"][network]
    return {
        "address": own["IPAddress"],
        "namespace": f"/proc/{told['State']['Pid']}/ns/net",
        "network_namespace": next(map(str, NAMESPACES.glob(f"*-{number}")), ""),
    }


def remove(network: str) -> bool:
    """Remove it; whether it was there. Raises Refused."""
    with _client() as client:
        there = client.api.containers(all=True, filters={"label": f"{LABEL}={_name(network)}"})
        for one in there:
            client.api.remove_container(one["Id"], force=True)
    return bool(there)


def _name(network: str) -> str:
    return f"end-{network}"


def _image(client: Any) -> str:
    """Any workload image will do: each has Python, and none is started for what is in it."""
    tags = [tag for image in client.images.list(name=REPOSITORY) for tag in image.tags]
    if not tags:
        raise Refused(
            "a network is proven from a container of a workload image",
            given="the engine holds none",
            then="deploy first: --tags provision,deploy",
        )
    return str(tags[0])


@contextlib.contextmanager
def _client() -> Iterator[Any]:
    """The engine, by its SDK, which only what makes containers needs. Raises Refused."""
    import docker  # noqa: PLC0415 - see above
    from docker.errors import DockerException  # noqa: PLC0415

    try:
        with contextlib.closing(docker.from_env()) as client:
            yield client
    except DockerException as error:
        raise Refused(
            "a container can stand on the network",
            given=f"Docker: {error}",
            then="see the engine's log on that host",
        ) from error
