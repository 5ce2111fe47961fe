#!/usr/bin/python
"""Make the system that hosts which are made start from."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_guest_system
short_description: Make the system that hosts which are made start from, a Debian with kernel and boot loader
description:
  - Makes it in Strata's cache, as the disk of virtual machines, or as kernel and archive for the memory of bare metal.
  - Nothing is done when one of the same packages and files is there.
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
    description: Folder with C(customize.sh), C(guest/) and C(ramdisk/).
    type: path
    required: true
  size:
    description: Size of the disk in GiB; what is not written takes no space. Without it a kernel and an archive are made.
    type: int
  kernel_arguments:
    description: More words for the kernel on the disk. What runs from memory is given its own when it is started.
    type: str
    default: ""
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
  strata_guest_system:
    cache: /srv/bigdisk/strata
    suite: bookworm
    packages: [linux-image-cloud-amd64, systemd-sysv, openssh-server, python3, sudo]
    files: roles/guest_system/files
    size: 8
    kernel_arguments: hugepages=512
"""

RETURN = r"""
files:
  description: What was made, by C(disk), or by C(kernel) and C(ramdisk).
  returned: success
  type: dict
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
from ansible.module_utils.strata.providers.guest import disk, ramdisk
from ansible.module_utils.strata.providers.guest.root import Root

NAMES = {
    disk.Disk: {"disk": disk.DISK},
    ramdisk.Ramdisk: {"kernel": ramdisk.KERNEL, "ramdisk": ramdisk.RAMDISK},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "suite": {"type": "str", "required": True},
            "packages": {"type": "list", "elements": "str", "required": True},
            "files": {"type": "path", "required": True},
            "size": {"type": "int"},
            "kernel_arguments": {"type": "str", "default": ""},
            "mirror": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    given = module.params
    cache = Path(given["cache"])
    shared = (given["suite"], given["packages"], Path(given["files"]), given["mirror"])
    began = time.monotonic()
    with failing(module):
        system: Root = (
            disk.Disk(*shared, given["size"], given["kernel_arguments"])
            if given["size"]
            else ramdisk.Ramdisk(*shared)
        )
        changed = not system.path(cache).exists() if module.check_mode else system.make(cache)
    made = changed and not module.check_mode
    kind = "disk of virtual machines" if given["size"] else "system of bare metal"
    took = f"{kind} made in {time.monotonic() - began:.0f} s"
    names = NAMES[type(system)]
    module.exit_json(
        changed=changed,
        files={what: str(system.path(cache) / name) for what, name in names.items()},
        key=system.key,
        progress=[took] if made else [],
    )


if __name__ == "__main__":
    main()
