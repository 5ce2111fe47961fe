#!/usr/bin/python
"""Refuse while a living run holds any of the hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_lease_info
short_description: Refuse while a living run holds any of the hosts
description:
  - Runs on the controller, and looks only at what M(strata_host) has said of the hosts.
  - Knows a lease whose holder was a process of the controller and has ended. A host cannot tell.
options:
  hosts:
    description: What M(strata_host) returned for each host, by its name.
    type: dict
    required: true
attributes:
  check_mode:
    description: Looks, and changes nothing.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Refuse while a living run holds any of the hosts
  strata_lease_info:
    hosts: {node1: "{{ hostvars.node1.strata_host }}"}
  delegate_to: localhost
"""

RETURN = r"""
stale: {description: Hosts whose lease is of a dead process on this controller., returned: success, type: list}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import lease


def main() -> None:
    module = AnsibleModule(
        argument_spec={"hosts": {"type": "dict", "required": True}}, supports_check_mode=True
    )
    hosts = module.params["hosts"]
    with failing(module):
        stale = [name for name, facts in hosts.items() if lease.stale(name, facts, {})]
    module.exit_json(changed=False, stale=stale)


if __name__ == "__main__":
    main()
