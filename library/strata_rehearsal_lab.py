#!/usr/bin/python
"""Check the settings of a rehearsal lab."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_rehearsal_lab
short_description: Check the settings of a rehearsal lab, and say what follows from them
description:
  - Refuses settings that make no sense, those that this machine cannot carry out, and files that are not the lab's.
  - Names everything that the lab will have. Makes nothing.
options:
  name:
    description: Name of the lab. Labs of different names and subnets stand beside each other.
    type: str
    required: true
  nodes:
    description: How many nodes, where O(hosts) does not name them.
    type: int
    default: 3
  hosts:
    description: The address of each node by its name.
    type: dict
    default: {}
  testbed:
    description: The testbed whose hosts the nodes are. A lab that is there and of another one is refused.
    type: str
    default: ""
  subnet:
    description: The lab's network.
    type: str
    required: true
  rate:
    description: Rate of each link in each direction, or V(none).
    type: str
    default: 1gbit
  delay:
    description: Delay of each packet that a node sends, or V(none).
    type: str
    default: none
  loss:
    description: Chance that a packet that a node sends is lost, or V(none).
    type: str
    default: none
  memory:
    description: Memory limit of each node.
    type: str
    required: true
  disk:
    description: Size of each node's disk.
    type: str
    required: true
  cpus:
    description: CPU limit of each node in cores; 0 for none.
    type: float
    default: 0
  cache:
    description: Strata's folder on the controller, in which the lab's keys and disks are kept.
    type: path
    required: true
  inventory:
    description: Folder that gets nodes.yml, where one is written.
    type: path
  machine:
    description: Whether to check that this machine can have it, and has no other of its name.
    type: bool
    default: true
attributes:
  check_mode:
    description: Reads all the same.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Check the lab
  strata_rehearsal_lab:
    name: strata
    subnet: 10.201.7.0/24
    memory: 6G
    disk: 20G
    cache: /srv/bigdisk/strata
    inventory: inventories/rehearsal
"""

RETURN = r"""
lab:
  description: Its nodes, network, folders and links; rates in bit/s, times in seconds, sizes in bytes.
  returned: success
  type: dict
claim:
  description: The line that makes a nodes.yml the lab's.
  returned: success
  type: str
capabilities_missing:
  description: What this machine cannot give to a node.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

import docker
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host.owned import Folder
from ansible.module_utils.strata.providers.rehearsal import lab as rehearsal


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "nodes": {"type": "int", "default": 3},
            "hosts": {"type": "dict", "default": {}},
            "testbed": {"type": "str", "default": ""},
            "subnet": {"type": "str", "required": True},
            "rate": {"type": "str", "default": "1gbit"},
            "delay": {"type": "str", "default": "none"},
            "loss": {"type": "str", "default": "none"},
            "memory": {"type": "str", "required": True},
            "disk": {"type": "str", "required": True},
            "cpus": {"type": "float", "default": 0},
            "cache": {"type": "path", "required": True},
            "inventory": {"type": "path"},
            "machine": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    with failing(module):
        lab = rehearsal.lab(given)
        Folder(Path(given["cache"]), "cache").is_ours()
        if given["inventory"]:
            rehearsal.check_inventory(Path(given["inventory"]), lab.name)
        if given["machine"]:
            rehearsal.check_machine(lab)
        # Without a testbed it is called by its name, and taken away by it whosever it is.
        if given["machine"] or given["testbed"]:
            rehearsal.check_testbed(containers(lab.name), lab.name, given["testbed"])
    module.exit_json(
        changed=False,
        lab=lab.document(),
        claim=rehearsal.claim(lab.name),
        capabilities_missing=rehearsal.capabilities_missing(),
    )


def containers(name: str) -> list[Any]:
    """The nodes of the lab that are there; none without an engine."""
    try:
        client = docker.from_env()
    except docker.errors.DockerException:
        return []
    mine = f"{rehearsal.LABEL}={name}"
    return list(client.containers.list(all=True, filters={"label": mine}, ignore_removed=True))


if __name__ == "__main__":
    main()
