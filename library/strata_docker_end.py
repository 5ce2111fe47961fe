#!/usr/bin/python
"""A container that stands on a network, for the proof of its path."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_docker_end
short_description: Let a container stand on a network of Docker's, where a trial's program would
description:
  - The container is of a workload image that the engine holds, and sleeps. One that is forgotten ends by itself, and is swept away like that of a trial.
options:
  state:
    description: Whether it is to be there.
    type: str
    choices: [present, absent]
    default: present
  network:
    description: Name of the network.
    type: str
    required: true
  address:
    description: IPv4 address that it is given; empty for one of the engine's choice.
    type: str
    default: ""
attributes:
  check_mode:
    description: Nothing is started in check mode.
    support: none
  diff_mode:
    description: It lasts for as long as a proof.
    support: none
"""

EXAMPLES = r"""
- name: Let a container stand on the network
  strata_docker_end:
    network: strata-overlay
"""

RETURN = r"""
address:
  description: Its IPv4 address on the network.
  returned: for present
  type: str
namespace:
  description: Path of its network namespace.
  returned: for present
  type: str
network_namespace:
  description: Path of the namespace in which the engine keeps the tunnel of a swarm's network; that of the host where it has none.
  returned: for present
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.runtimes.docker import end


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "network": {"type": "str", "required": True},
            "address": {"type": "str", "default": ""},
        },
    )
    given = module.params
    with failing(module):
        if given["state"] == "absent":
            module.exit_json(changed=end.remove(given["network"]))
        told = end.stand(given["network"], given["address"])
    module.exit_json(changed=True, **told)


if __name__ == "__main__":
    main()
