#!/usr/bin/python
"""What a host can do for an overlay."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_overlay
short_description: Try what an overlay needs of a host, and find room for it
description:
  - Features of the kernel are tried in a network namespace that ends with the try. Nothing else changes.
  - Fails with the name of what is missing, with both ranges where the subnet is in use, or with both sizes where the MTU is larger than what the path leaves.
options:
  network:
    description: What the network is called.
    type: str
    required: true
  needs:
    description: Features of the kernel.
    type: list
    elements: str
    choices: [vxlan, bridge, macvlan, ipvlan, wireguard, ipip, tun, esp, ebpf]
    default: []
  subnet:
    description: Its addresses, a range of 256 for each host; empty where something else gives them out.
    type: str
    default: ""
  hosts:
    description: The hosts of the setting, in the order of the inventory, with their addresses.
    type: dict
    required: true
  host:
    description: The name of this host.
    type: str
    required: true
  own:
    description: Devices of the network itself, whose routes do not count.
    type: list
    elements: str
    default: []
  others:
    description: Ranges of which the network gives out addresses by itself.
    type: list
    elements: str
    default: []
  there:
    description: A path that is on a host which has the network; routes to O(others) are then its own. Empty where they are not to be there at all.
    type: path
    default: ""
  overhead:
    description: Bytes that it adds to a packet.
    type: int
    default: 0
  mtu:
    description: Bytes of its largest packet; 0 for what the path leaves.
    type: int
    default: 0
attributes:
  check_mode:
    description: Looks all the same.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Look what there is for VXLAN
  strata_overlay:
    network: vxlan
    needs: [vxlan, bridge]
    subnet: 10.214.0.0/16
    hosts: {node1: 10.0.0.11, node2: 10.0.0.12}
    host: node1
    overhead: 50
"""

RETURN = r"""
parent:
  description: The device that has the host's address.
  returned: success
  type: str
mtu:
  description: Bytes of the largest packet in the overlay, as this host sees it.
  returned: success
  type: int
subnet:
  description: All of its addresses.
  returned: success
  type: str
places:
  description: "Addresses by host: C(host) its own, C(proof) that of a container for the proof, C(members) the first of those for members of trials, C(range) all of them."
  returned: success
  type: dict
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import overlay


def main() -> None:
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "network": {"type": "str", "required": True},
            "needs": {**names, "choices": [*overlay.FEATURES, *overlay.FILE_SYSTEMS]},
            "subnet": {"type": "str", "default": ""},
            "hosts": {"type": "dict", "required": True},
            "host": {"type": "str", "required": True},
            "own": names,
            "others": names,
            "there": {"type": "path", "default": ""},
            "overhead": {"type": "int", "default": 0},
            "mtu": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    with failing(module):
        found = overlay.look(**module.params)
    module.exit_json(changed=False, **asdict(found))


if __name__ == "__main__":
    main()
