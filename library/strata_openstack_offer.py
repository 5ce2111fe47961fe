#!/usr/bin/python
"""Ask a cloud whether it can give what a testbed asks."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_openstack_offer
short_description: Ask a cloud of OpenStack whether it can give what a testbed asks
description:
  - Refuses credentials that are wrong, a network, security group, image or flavor that is not there, more than the quota leaves, and
    a server that is there and is not what is asked.
  - Makes nothing. Names what would be made.
options:
  cloud:
    description: Its name in clouds.yaml.
    type: str
    required: true
  testbed:
    description: The testbed, whose name everything that is made for it bears.
    type: str
    required: true
  network:
    description: The network of the servers.
    type: str
    required: true
  floating:
    description: The network of floating addresses; empty where there are to be none.
    type: str
    default: ""
  image:
    description: An image that is there; empty for one that will be made.
    type: str
    default: ""
  security_groups:
    description: Those of the servers, which are there.
    type: list
    elements: str
    default: []
  hosts:
    description: By the name of each host, what its server is to be.
    type: dict
    required: true
attributes:
  check_mode:
    description: Reads all the same.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Ask the cloud
  strata_openstack_offer:
    cloud: mycloud
    testbed: lab-1
    network: guests
    hosts:
      vm1: {flavor: "", vcpus: 1, memory: 1024, disk: 8, specs: {}, device: {}}
"""

RETURN = r"""
filters:
  description: Whether the network filters what its servers send and receive, so that they can have security groups.
  returned: success
  type: bool
offers:
  description: By host its server's name, its CPUs and memory in bytes, and its placement.
  returned: success
  type: dict
servers:
  description: Those of the hosts that are there, with C(id), C(name) and C(status).
  returned: success
  type: list
  elements: dict
"""

from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.providers.openstack import offer
from ansible.module_utils.strata.providers.openstack.api import connect, telling
from ansible.module_utils.strata.providers.openstack.found import name


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "testbed": {"type": "str", "required": True},
            "network": {"type": "str", "required": True},
            "floating": {"type": "str", "default": ""},
            "image": {"type": "str", "default": ""},
            "security_groups": {"type": "list", "elements": "str", "default": []},
            "hosts": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    with telling(module):
        for host, asked in given["hosts"].items():
            offer.check_device(host, asked.get("device", {}))
        cloud = connect(given["cloud"])
        networks = {network.name: network for network in cloud.network.networks()}
        offer.check_named("network", given["network"], networks, "openstack_network")
        if given["floating"]:
            outside = [name for name, network in networks.items() if network.is_router_external]
            offer.check_named("network", given["floating"], outside, "openstack_floating")
        # A cloud without the extension says nothing, and filters.
        filters = networks[given["network"]].is_port_security_enabled is not False
        offer.check_groups(cloud, given["security_groups"], given["network"], filters=filters)
        if given["image"]:
            images = [image.name for image in cloud.image.images(status="active")]
            offer.check_named("image", given["image"], images, "openstack_image")
        sizes = {
            host: offer.size(
                cloud, asked["flavor"], offer.Size(asked["vcpus"], asked["memory"], asked["disk"])
            )
            for host, asked in given["hosts"].items()
        }
        names = {host: name(given["testbed"], host) for host in sizes}
        there = {server.name: server for server in cloud.compute.servers()}
        for host, asked in given["hosts"].items():
            found = there.get(names[host])
            if found is not None and found.status != "ERROR":
                flavor, specs = asked["flavor"], asked.get("specs", {})
                offer.check_same(host, found.flavor, flavor, sizes[host], specs)
        missing = [size for host, size in sizes.items() if names[host] not in there]
        offer.check_quota(offer.limits(cloud), missing)
    module.exit_json(
        changed=False,
        filters=filters,
        servers=[
            {"id": there[each].id, "name": each, "status": there[each].status}
            for each in names.values()
            if each in there
        ],
        offers={
            host: {
                "what": {"server": names[host]},
                "cpu_ids": list(range(size.vcpus)),
                "memory_total": size.memory * offer.MIB,
                "placement": _placement(given, given["hosts"][host], size),
            }
            for host, size in sizes.items()
        },
    )


def _placement(given: dict[str, Any], asked: dict[str, Any], size: offer.Size) -> dict[str, Any]:
    """What a server that is made again must be given again. None of it is secret."""
    same = {key: given[key] for key in ("cloud", "network", "image")}
    own = {key: asked.get(key, {}) for key in ("specs", "device")}
    return {**same, "flavor": asked["flavor"], **asdict(size), **own}


if __name__ == "__main__":
    main()
