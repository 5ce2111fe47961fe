#!/usr/bin/python
"""Ask a cloud for servers, all at once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_openstack_servers
short_description: Ask a cloud for servers, all at once
description:
  - As M(openstack.cloud.server) does for one server after another. The cloud begins them side by side, and nobody waits for that here.
  - What the cloud says to a server that it does not take on is told, and fails nothing, so that all are asked for.
options:
  cloud:
    description: Its name in clouds.yaml.
    type: str
    required: true
  testbed:
    description: Whose servers they are. They bear its name, and have the key pair of that name.
    type: str
    required: true
  network:
    description: Their network.
    type: str
    required: true
  security_groups:
    description: Their groups.
    type: list
    elements: str
    default: []
  hosts:
    description: By host the C(flavor) and the C(image) of its server, and perhaps C(hints) for the scheduler and C(user_data).
    type: dict
    required: true
  holder:
    description: The process of ansible-playbook, as M(strata_ledger) tells it. The module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Asks for nothing.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Ask for a server
  strata_openstack_servers:
    cloud: mycloud
    testbed: lab-1
    network: private
    hosts: {vm1: {flavor: m1.small, image: debian-12}}
"""

RETURN = r"""
servers:
  description: By host the id of each server that the cloud takes on.
  returned: success
  type: dict
refused:
  description: By host what the cloud says to each other one.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.providers.openstack import servers
from ansible.module_utils.strata.providers.openstack.api import connect, telling
from ansible.module_utils.strata.trial import termination


def main() -> None:
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            **dict.fromkeys(("cloud", "testbed", "network"), text),
            "security_groups": {"type": "list", "elements": "str", "default": []},
            "hosts": {"type": "dict", "required": True},
            "holder": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    given = module.params
    termination.ends_with(given["holder"])
    wanted = {host: servers.Wanted(**one) for host, one in given["hosts"].items()}
    if module.check_mode:
        module.exit_json(changed=bool(wanted), servers={}, refused={})
    names = ("testbed", "network", "security_groups")
    same = servers.Same(**{name: given[name] for name in names})
    with telling(module):
        made, refused = servers.ask(connect(given["cloud"]), same, wanted)
    module.exit_json(changed=bool(made), servers=made, refused=refused)


if __name__ == "__main__":
    main()
