#!/usr/bin/python
"""Whether a network of pods enforces the policies of its cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_network_policy
short_description: Try whether a network of pods enforces a policy
description:
  - Two pods stand on each host. A policy lets the first of them, the admitted, reach the second, the denied, and nobody else.
  - The denied tries to reach the denied of the other hosts. The admitted reaches them before and after; where it does not, the module fails in a sentence.
options:
  admitted:
    description: Path of the network namespace of this host's pod that the policy admits.
    type: str
    required: true
  denied:
    description: Path of that of this host's pod which it does not admit.
    type: str
    required: true
  peers:
    description: IPv4 addresses of the pods behind the policy, by the names of their hosts.
    type: dict
    required: true
attributes:
  check_mode:
    description: Nothing is changed.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
"""

EXAMPLES = r"""
- name: Try whether the policy is enforced
  strata_network_policy:
    admitted: /proc/4711/ns/net
    denied: /proc/4712/ns/net
    peers: {node2: 10.218.1.7}
"""

RETURN = r"""
enforced:
  description: Whether it is, on the way to all of the peers.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import network_policy


def main() -> None:
    path = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "admitted": path,
            "denied": path,
            "peers": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    with failing(module, OSError):
        enforced = network_policy.enforced(**module.params)
    module.exit_json(changed=False, enforced=enforced)


if __name__ == "__main__":
    main()
