#!/usr/bin/python
"""The fingerprint of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_fingerprint
short_description: Capture what a host is made of
description:
  - Reads CPU, kernel, memory, disks, network cards, GPUs, engines and clock. Changes nothing.
  - Holds nothing that identifies a machine.
options:
  state_dir:
    description: Strata's folder on the host, for the type of its file system.
    type: path
    required: true
  others:
    description: Addresses of the testbed's hosts. The devices over which this host sends to them are in it, whatever they are.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reads all the same.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Take the fingerprint
  strata_fingerprint:
    state_dir: /var/lib/strata
"""

RETURN = r"""
fingerprint:
  description: Flat keys such as C(cpu.model) with plain values.
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import runtimes
from ansible.module_utils.strata.host.fingerprint import capture


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "required": True},
            "others": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    given = module.params
    found = capture(Path(given["state_dir"]), given["others"]) | runtimes.fingerprint()
    module.exit_json(changed=False, fingerprint=dict(sorted(found.items())))


if __name__ == "__main__":
    main()
