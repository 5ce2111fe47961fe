#!/usr/bin/python
"""Make the disk of virtual machines."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_openstack_disk
short_description: Make the disk of virtual machines, a Debian with kernel and boot loader
description:
  - Makes it in Strata's cache. Nothing is done when one of the same packages and files is there.
options:
  cache:
    description: Strata's folder on the controller.
    type: path
    required: true
  suite:
    description: Release of Debian.
    type: str
    required: true
  packages:
    description: Packages of it, with a kernel.
    type: list
    elements: str
    required: true
  files:
    description: Folder with C(customize.sh) and C(guest/).
    type: path
    required: true
  size:
    description: Size of the disk in GiB; what is not written takes no space.
    type: int
    required: true
  mirror:
    description: Mirror of the distribution; empty for its usual one.
    type: str
    default: ""
attributes:
  check_mode:
    description: Says whether it would be made.
    support: full
  diff_mode:
    description: It is whole or not there.
    support: none
"""

EXAMPLES = r"""
- name: Make the disk
  strata_openstack_disk:
    cache: /srv/bigdisk/strata
    suite: bookworm
    packages: [linux-image-cloud-amd64, systemd-sysv, openssh-server, python3, sudo]
    files: roles/openstack/files
    size: 8
"""

RETURN = r"""
path:
  description: The disk.
  returned: success
  type: str
key:
  description: What its content is named by.
  returned: success
  type: str
progress:
  description: A line for people.
  returned: success
  type: list
  elements: str
"""

import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.openstack.disk import Disk


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "suite": {"type": "str", "required": True},
            "packages": {"type": "list", "elements": "str", "required": True},
            "files": {"type": "path", "required": True},
            "size": {"type": "int", "required": True},
            "mirror": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    given = dict(module.params)
    cache = Path(given.pop("cache"))
    disk = Disk(**{**given, "files": Path(given["files"])})
    began = time.monotonic()
    with failing(module):
        changed = not disk.path(cache).exists() if module.check_mode else disk.make(cache)
    made = changed and not module.check_mode
    took = f"disk of virtual machines made in {time.monotonic() - began:.0f} s"
    module.exit_json(
        changed=changed, path=str(disk.path(cache)), key=disk.key, progress=[took] if made else []
    )


if __name__ == "__main__":
    main()
