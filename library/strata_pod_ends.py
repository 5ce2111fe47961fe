#!/usr/bin/python
"""Where a network of pods is proven on this host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_pod_ends
short_description: Find the pods between which a network is proven, and the device between the hosts
description:
  - The engine and the kernel of this host are asked, not the cluster.
  - Fails in a sentence unless one pod of each set runs here.
options:
  namespace:
    description: Namespace of these pods in the cluster.
    type: str
    required: true
  apps:
    description: Names of the DaemonSets that they are of.
    type: list
    elements: str
    default: [probe, closed]
  other:
    description: IPv4 address of another host.
    type: str
    required: true
  device:
    description: The device that has this host's own address on the network; empty where that is the one between the hosts.
    type: str
    default: ""
attributes:
  check_mode:
    description: Nothing is changed.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
"""

EXAMPLES = r"""
- name: Look where the pods are
  strata_pod_ends:
    namespace: kube-flannel
    other: 10.0.0.12
    device: cni0
"""

RETURN = r"""
pods:
  description: By DaemonSet, path of the network C(namespace) of its pod here, and its C(address).
  returned: success
  type: dict
under:
  description: The device by which the host reaches the other one, C(device), C(kind), C(mtu).
  returned: success
  type: dict
address:
  description: This host's own address on the network, where programs on no pod are reached; empty where it has none.
  returned: success
  type: str
stood:
  description: For how many seconds the pods have had a network of their own.
  returned: success
  type: float
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.runtimes.kubernetes import ends


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "namespace": {"type": "str", "required": True},
            "apps": {"type": "list", "elements": "str", "default": ["probe", "closed"]},
            "other": {"type": "str", "required": True},
            "device": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    with failing(module):
        found = ends.look(**module.params)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
