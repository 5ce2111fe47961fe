"""The config drive, on which a host that is made finds what it is told, as cloud-init reads it.

A file system of its own, by whose label the guest finds it; made without a mount.
"""

from __future__ import annotations

import json
from ipaddress import IPv4Interface
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...host import making

LABEL = "config-2"
FOLDER = "openstack/latest"
ANYWHERE = "0.0.0.0"  # noqa: S104 - of a route; nothing listens


def told(
    name: str, key: str, host_key: tuple[str, str], network_data: dict[str, Any]
) -> dict[str, Any]:
    """Its files by name: the host's name, who may log in, its host key, its address."""
    private, public = host_key
    keys = {"ed25519_private": private, "ed25519_public": public}
    return {
        "meta_data": {"name": name, "public_keys": {"strata": key}},
        "user_data": "#cloud-config\n" + json.dumps({"ssh_keys": keys}),
        "network_data": network_data,
    }


def network(address: str, gateway: str, mac: str) -> dict[str, Any]:
    """`network_data.json` of one address on one interface."""
    at = IPv4Interface(address)
    anywhere = {"network": ANYWHERE, "netmask": ANYWHERE, "gateway": gateway}
    link = {"id": "link0", "type": "phy", "ethernet_mac_address": mac}
    return {
        "links": [link],
        "networks": [
            {
                **{"id": "network0", "type": "ipv4", "link": "link0"},
                **{"ip_address": str(at.ip), "netmask": str(at.netmask)},
                "routes": [anywhere] if gateway else [],
            }
        ],
        "services": [],
    }


def write(path: Path, files: dict[str, Any]) -> None:
    """Make the image of a drive, whole, which nobody else can read. Raises Refused."""
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as aside:
        tree = Path(aside) / "tree"
        latest = tree / FOLDER
        latest.mkdir(parents=True)
        (latest / "user_data").write_text(files["user_data"])
        for name in ("meta_data", "network_data"):
            (latest / f"{name}.json").write_text(json.dumps(files[name]))
        image = Path(aside) / path.name
        command = ["genisoimage", "-quiet", "-r", "-J", "-V", LABEL, "-o", str(image), str(tree)]
        making.run(command, path.name)
        image.chmod(0o600)
        image.replace(path)
