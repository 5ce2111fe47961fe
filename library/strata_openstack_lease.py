#!/usr/bin/python
"""Have a cloud lease hosts to a testbed, or end that."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_openstack_lease
short_description: Have a cloud lease hosts to a testbed, by its reservation service, or end that
description:
  - A testbed has one lease, which bears its name. One that is over is made anew.
options:
  cloud:
    description: Its name in clouds.yaml.
    type: str
    required: true
  testbed:
    description: The testbed.
    type: str
    required: true
  state:
    description: Whether there is to be a lease. V(offered) makes none, and refuses what cannot be had.
    type: str
    choices: [offered, present, absent]
    default: present
  hosts:
    description: How many hosts.
    type: int
    default: 0
  lease:
    description: C(hours), and C(properties) of the hosts in the words of Blazar.
    type: dict
    default: {}
  patience:
    description: After so many seconds a lease that is not active is given up.
    type: float
    default: 600
  holder:
    description: The process of ansible-playbook, as M(strata_ledger) tells it. The module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Looks, and asks for nothing.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Lease two hosts
  strata_openstack_lease:
    cloud: mycloud
    testbed: lab-1
    hosts: 2
    lease: {hours: 6}
"""

RETURN = r"""
reservation:
  description: The id by which the scheduler knows the hosts; empty where there is none.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.providers.openstack import reserved
from ansible.module_utils.strata.providers.openstack.api import connect, telling
from ansible.module_utils.strata.trial import termination


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "testbed": {"type": "str", "required": True},
            "state": {
                "type": "str",
                "choices": ["offered", "present", "absent"],
                "default": "present",
            },
            "hosts": {"type": "int", "default": 0},
            "lease": {"type": "dict", "default": {}},
            "patience": {"type": "float", "default": 600},
            "holder": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    termination.ends_with(module.params["holder"])
    with telling(module):
        reservation, changed = act(module.params, module.check_mode)
    module.exit_json(changed=changed, reservation=reservation)


def act(given: dict[str, Any], check: bool) -> tuple[str, bool]:
    """The reservation, and whether anything changed or would. Raises Refused."""
    cloud, testbed = connect(given["cloud"]), given["testbed"]
    if given["state"] == "absent":
        there = bool(reserved.find(cloud, testbed)) if check else reserved.end(cloud, testbed)
        return "", there
    wanted = reserved.asked(testbed, given["hosts"], given["lease"])
    reserved.check(cloud)
    if given["state"] == "offered":
        return "", False
    if not check:
        reservation, made = reserved.have(cloud, wanted, given["patience"])
        return reservation, made
    there = [one for one in reserved.find(cloud, testbed) if one["status"] == reserved.ACTIVE]
    return next((str(one["reservations"][0]["id"]) for one in there), ""), not there


if __name__ == "__main__":
    main()
