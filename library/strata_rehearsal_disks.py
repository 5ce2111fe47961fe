#!/usr/bin/python
"""Make the disks of a rehearsal lab's nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_rehearsal_disks
short_description: Make the disks of a rehearsal lab's nodes
description:
  - Gives each node a disk of its own, a sparse file with a file system in it, and mounts it.
  - Refuses a folder that is not in Strata's cache.
options:
  folder:
    description: Folder of the lab's disks.
    type: path
    required: true
  nodes:
    description: Names of the nodes. None removes all disks.
    type: list
    elements: str
    default: []
  size:
    description: Size of each disk in bytes. What is not written takes no space.
    type: int
    default: 0
  parts:
    description: Folders on each disk.
    type: list
    elements: str
    default: []
  purge:
    description: Whether the disks of nodes that are not named are removed.
    type: bool
    default: true
attributes:
  check_mode:
    description: Says what would change.
    support: full
  diff_mode:
    description: Shows the disks before and after.
    support: full
"""

EXAMPLES = r"""
- name: Make the nodes' disks
  strata_rehearsal_disks:
    folder: .cache/rehearsal/strata/disks
    nodes: [node1, node2]
    size: 21474836480
    parts: [docker, strata]
"""

RETURN = r"""
disks:
  description: The state of each disk, C(mounted), C(made) or C(absent), by node.
  returned: success
  type: dict
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import owned
from ansible.module_utils.strata.providers.rehearsal.disks import Disk


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "size": {"type": "int", "default": 0},
            "parts": {"type": "list", "elements": "str", "default": []},
            "purge": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    with failing(module):
        change(module)


def change(module: AnsibleModule) -> None:
    """Make what is asked for, remove the rest; leaves through exit_json. Raises Refused."""
    given = module.params
    folder = Path(given["folder"])
    owned.check_below(folder)
    there = {path.stem for path in folder.glob("*.img")} if given["purge"] else set()
    disks = {
        name: Disk(folder / f"{name}.img", folder / name, given["size"])
        for name in sorted({*there, *given["nodes"]})
    }
    before = {name: disk.state() for name, disk in disks.items()}
    after = {name: "mounted" if name in given["nodes"] else "absent" for name in disks}
    if not module.check_mode:
        wanted = {disks[name] for name in given["nodes"]}
        for disk in wanted:
            disk.make(given["parts"])
        with ThreadPoolExecutor() as pool:  # each is seconds of the kernel's work
            list(pool.map(Disk.remove, set(disks.values()) - wanted))
        if not given["nodes"]:
            with contextlib.suppress(OSError):
                folder.rmdir()
    module.exit_json(
        changed=before != after,
        disks=before if module.check_mode else after,
        diff={"before": before, "after": after},
    )


if __name__ == "__main__":
    main()
