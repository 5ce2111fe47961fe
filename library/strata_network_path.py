#!/usr/bin/python
"""Proof of the path that traffic takes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_network_path
short_description: Prove that packets take the device that was asked for
description:
  - Looks at the running system, and sends to each peer. The route to each of them names the device, packets of exactly the MTU get there whole and larger ones do not, TCP is answered, and the device counts what was sent and what came back, and has these very packets.
  - Fails in a sentence with what was asked for and what runs.
  - Both directions are proven where it runs on all of the hosts.
options:
  address:
    description: IPv4 address of this end.
    type: str
    required: true
  mtu:
    description: Bytes of the largest packet, as a program sends it.
    type: int
    required: true
  route:
    description: The device, in the namespace of this end, by which packets to all peers must leave.
    type: str
    required: true
  kind:
    description: Kind of the device that carries them, as C(ip -details link) says it.
    type: str
    required: true
  namespace:
    description: Path of the network namespace in which this end is; empty for the host's own.
    type: str
    default: ""
  device:
    description: The device that carries them, where it is not O(route).
    type: str
    default: ""
  device_namespace:
    description: Path of the namespace in which that device is, empty for the host's own. That of this end if left out.
    type: str
  peers:
    description: IPv4 addresses of the other ends, by the names of their hosts.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Nothing is sent in check mode.
    support: none
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Prove that packets to the peers take the tunnel
  strata_network_path:
    address: 10.214.1.1
    mtu: 1450
    route: strata-vxlan
    kind: vxlan
    peers: {node2: 10.214.2.1}
"""

RETURN = r"""
proven:
  description: A line for the device, and one for each peer.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import network_path


def main() -> None:
    texts = ("address", "route", "kind")
    module = AnsibleModule(
        argument_spec={
            **{name: {"type": "str", "required": True} for name in texts},
            "mtu": {"type": "int", "required": True},
            "namespace": {"type": "str", "default": ""},
            "device": {"type": "str", "default": ""},
            "device_namespace": {"type": "str"},
            "peers": {"type": "dict", "default": {}},
        },
    )
    given = dict(module.params)
    peers = given.pop("peers")
    with failing(module, OSError):
        proven = network_path.prove(network_path.End(**given), peers)
    module.exit_json(changed=False, proven=proven)


if __name__ == "__main__":
    main()
