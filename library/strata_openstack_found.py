#!/usr/bin/python
"""List what a cloud has of a testbed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_openstack_found
short_description: List what a cloud of OpenStack has of a testbed
description:
  - Lists servers, security groups, flavors, images and keypairs that bear the testbed's name, whoever noted them where.
options:
  cloud:
    description: Its name in clouds.yaml.
    type: str
    required: true
  testbed:
    description: The testbed.
    type: str
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
- name: List what is there
  strata_openstack_found:
    cloud: mycloud
    testbed: lab-1
"""

RETURN = r"""
found:
  description: Names by kind.
  returned: success
  type: dict
ids:
  description: Their ids by kind.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.providers.openstack.api import connect, telling
from ansible.module_utils.strata.providers.openstack.found import found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "testbed": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    with telling(module):
        there = found(connect(module.params["cloud"]), module.params["testbed"])
    module.exit_json(
        changed=False,
        found={kind: sorted(names.values()) for kind, names in there.items()},
        ids={kind: sorted(names) for kind, names in there.items()},
    )


if __name__ == "__main__":
    main()
