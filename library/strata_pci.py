#!/usr/bin/python
"""Look for a PCI device that was passed through."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_pci
short_description: Look for a PCI device that was passed through to this host
description:
  - Fails where the kernel of this host sees fewer of it than there are to be.
options:
  vendor_id:
    description: Four digits in base 16.
    type: str
    required: true
  product_id:
    description: Four digits in base 16.
    type: str
    required: true
  count:
    description: How many there are to be.
    type: int
    default: 1
attributes:
  check_mode:
    description: Reads all the same.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Look for the GPU
  strata_pci:
    vendor_id: 10de
    product_id: "2330"
"""

RETURN = r"""
addresses:
  description: Where they are on the bus.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import Refused, failing
from ansible.module_utils.strata.host.devices import pci


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "vendor_id": {"type": "str", "required": True},
            "product_id": {"type": "str", "required": True},
            "count": {"type": "int", "default": 1},
        },
        supports_check_mode=True,
    )
    asked = f"{module.params['vendor_id']}:{module.params['product_id']}".lower()
    devices = pci()
    found = [address for address, what in devices.items() if what == asked]
    with failing(module):
        if len(found) < module.params["count"]:
            raise Refused(
                "a device that is passed through is seen by the guest",
                given=f"{len(found)} of {module.params['count']} devices {asked}; "
                f"the guest has {', '.join(sorted(set(devices.values())))}",
                then="look at how the device is passed through; on OpenStack compare the alias with "
                "vendor_id and product_id of openstack_device",
            )
    module.exit_json(changed=False, addresses=found)


if __name__ == "__main__":
    main()
