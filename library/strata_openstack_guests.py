#!/usr/bin/python
"""Wait until servers have begun, and pin their host keys."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_openstack_guests
short_description: Wait until servers have begun, and pin their host keys
description:
  - Unless it was given one, a server tells its host key on its console, as cloud-init does it; the cloud hands that out to the project alone.
    So the key is known before the first connection.
  - Fails with the cause where the cloud could not make a server.
options:
  cloud:
    description: Its name in clouds.yaml.
    type: str
    required: true
  network:
    description: The network of the servers.
    type: str
    required: true
  floating:
    description: Whether servers are reached at floating addresses.
    type: bool
    default: false
  servers:
    description: The id of each server by its host.
    type: dict
    required: true
  devices:
    description: By host the PCI devices that were asked for, with their count.
    type: dict
    default: {}
  host_keys:
    description: By host the public key that its server was given, which it then need not tell.
    type: dict
    default: {}
  refused:
    description: By host what the cloud said to those that it did not even begin to make.
    type: dict
    default: {}
  known_hosts:
    description: The file in which the keys are pinned.
    type: path
    required: true
  patience:
    description: After so many seconds a server that has told nothing is given up.
    type: float
    default: 600
  holder:
    description: The process of ansible-playbook, as M(strata_ledger) tells it. The module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Waits for nobody, and tells of the servers that are there with their keys pinned.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Wait for the servers
  strata_openstack_guests:
    cloud: mycloud
    network: guests
    servers: {vm1: 2ba4c5a0-2c38-4a5c-a6d3-6f0f4b3b4a0c}
    known_hosts: .cache/openstack/lab-1/known_hosts
"""

RETURN = r"""
guests:
  description: Of each host the id of its server, its address, and when it was C(asked) for and C(active), as Nova says.
  returned: success
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.providers.guest import keys
from ansible.module_utils.strata.providers.openstack import faults, guests
from ansible.module_utils.strata.providers.openstack.api import connect, telling
from ansible.module_utils.strata.trial import termination


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "network": {"type": "str", "required": True},
            "floating": {"type": "bool", "default": False},
            "servers": {"type": "dict", "required": True},
            "devices": {"type": "dict", "default": {}},
            "host_keys": {"type": "dict", "default": {}},
            "refused": {"type": "dict", "default": {}},
            "known_hosts": {"type": "path", "required": True},
            "patience": {"type": "float", "default": 600},
            "holder": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    given, pinned = module.params, Path(module.params["known_hosts"])
    termination.ends_with(module.params["holder"])
    with telling(module):
        for host, said in given["refused"].items():
            raise faults.refused(host, said, given["devices"].get(host, ""))
        cloud = connect(given["cloud"])
        names = ("servers", "network", "devices", "floating", "host_keys")
        asked = guests.Asked(**{name: given[name] for name in names})
        if module.check_mode:
            before = keys.known(pinned)
            found = guests.look(cloud, asked, pinned)
            found = {host: one for host, one in found.items() if one.server in before}
            changed = False
        else:
            found = guests.wait(cloud, asked, pinned, given["patience"])
            changed = keys.write(pinned, found.values())
        said = {
            host: {"server": one.server, "address": one.address, **guests.told(cloud, one.server)}
            for host, one in found.items()
        }
    module.exit_json(changed=changed, guests=said)


if __name__ == "__main__":
    main()
