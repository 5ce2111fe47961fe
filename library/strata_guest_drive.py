#!/usr/bin/python
"""Make the config drive of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_guest_drive
short_description: Make the config drive on which a host finds its name, keys and address
description:
  - As cloud-init reads it. The host key on it is the controller's to make, so it is known before the first connection.
options:
  path:
    description: The image, which nobody else can read. Made anew each time.
    type: path
    required: true
  host:
    description: The host's name.
    type: str
    required: true
  keys:
    description: Folder with its host key, C(host_key-HOST) and C(host_key-HOST.pub).
    type: path
    required: true
  key:
    description: The public key that is let in.
    type: str
    required: true
  mac:
    description: The address of its network card.
    type: str
    required: true
  address:
    description: Its address with the prefix. Empty where it asks for one.
    type: str
    default: ""
  gateway:
    description: Its gateway.
    type: str
    default: ""
attributes:
  check_mode:
    description: Makes nothing.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Make the config drive
  strata_guest_drive:
    path: .cache/libvirt/lab-1/vm1.iso
    host: vm1
    keys: .cache/libvirt/lab-1
    key: ssh-ed25519 AAAA strata-lab-1
    mac: 52:54:00:12:34:56
"""

RETURN = r"""
path:
  description: The image.
  returned: success
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.guest import drive, keys


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
            "keys": {"type": "path", "required": True, "no_log": False},
            "key": {"type": "str", "required": True, "no_log": False},
            "mac": {"type": "str", "required": True},
            "address": {"type": "str", "default": ""},
            "gateway": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    given, path = module.params, Path(module.params["path"])
    if not module.check_mode:
        asked = (given["address"], given["gateway"], given["mac"])
        network = drive.network(*asked) if given["address"] else {}
        own = keys.own(Path(given["keys"]), given["host"])
        with failing(module):
            drive.write(path, drive.told(given["host"], given["key"], own, network))
    module.exit_json(changed=True, path=str(path))


if __name__ == "__main__":
    main()
