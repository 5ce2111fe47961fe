#!/usr/bin/python
"""Wait until hosts answer with their host keys, and pin these."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_guest_keys
short_description: Wait until hosts that were given their host keys answer with them, and pin these
description:
  - The controller has made the keys, so that each is known before the first connection.
options:
  hosts:
    description: By host its C(instance) and C(address).
    type: dict
    required: true
  keys:
    description: Folder of their host keys, C(host_key-HOST.pub) each, and of C(known_hosts), in which they are pinned.
    type: path
    required: true
  patience:
    description: After so many seconds a host that does not answer is given up.
    type: float
    default: 600
  holder:
    description: The process of ansible-playbook, as M(strata_ledger) tells it. The module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Waits for nobody, and tells of the hosts whose keys are pinned.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Wait for the machines
  strata_guest_keys:
    hosts: {vm1: {instance: 2ba4c5a0-2c38-4a5c-a6d3-6f0f4b3b4a0c, address: 192.168.122.7}}
    keys: .cache/libvirt/lab-1
"""

RETURN = r"""
hosts:
  description: Those that answer, with what was given.
  returned: success
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.guest import keys
from ansible.module_utils.strata.trial import termination


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "hosts": {"type": "dict", "required": True},
            "keys": {"type": "path", "required": True, "no_log": False},
            "patience": {"type": "float", "default": 600},
            "holder": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    given, folder = module.params, Path(module.params["keys"])
    pinned, hosts = folder / "known_hosts", module.params["hosts"]
    if module.check_mode:
        before = keys.known(pinned)
        hosts = {host: one for host, one in hosts.items() if one["instance"] in before}
        module.exit_json(changed=False, hosts=hosts)
    termination.ends_with(module.params["holder"])
    guests = {
        host: keys.Guest(one["instance"], one["address"], keys.public(folder, host))
        for host, one in hosts.items()
    }
    with failing(module):
        keys.wait(guests, given["patience"])
    module.exit_json(changed=keys.write(pinned, guests.values()), hosts=hosts)


if __name__ == "__main__":
    main()
