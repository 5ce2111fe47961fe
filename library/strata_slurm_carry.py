#!/usr/bin/python
"""Carry files to a node of an allocation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_slurm_carry
short_description: Carry files to a node of a Slurm allocation, by a step of its job
description:
  - Runs on the controller. The files go as one stream, which the node unpacks.
  - Whoever asks has looked whether they are there already, and proves afterwards that they are.
options:
  srun:
    description: How the node is reached, as the connection C(strata_srun) takes it.
    type: dict
    required: true
  become:
    description: Whether they are root's on the node.
    type: bool
    default: false
  source:
    description: The folder on the controller.
    type: path
    required: true
  names:
    description: The file on the controller that lists the files of it, each ended by a NUL.
    type: path
    required: true
  folder:
    description: The folder on the node, which is there.
    type: path
    required: true
attributes:
  check_mode:
    description: Carries nothing.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Carry the photographs
  strata_slurm_carry:
    srun: "{{ ansible_srun }}"
    source: /data/flowers
    names: /data/flowers.files
    folder: /var/tmp/strata-me/datasets/flowers
  delegate_to: localhost
"""

RETURN = r"""
carried:
  description: How many files were carried.
  returned: success
  type: int
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.slurm.carry import carry
from ansible.module_utils.strata.providers.slurm.site import Site


def main() -> None:
    path = {"type": "path", "required": True}
    module = AnsibleModule(
        argument_spec={
            "srun": {"type": "dict", "required": True},
            "become": {"type": "bool", "default": False},
            **{"source": path, "names": path, "folder": path},
        },
        supports_check_mode=True,
    )
    given, srun = module.params, module.params["srun"]
    site = Site(srun.get("login") or "", tuple(srun.get("arguments") or ()))
    source, names, folder = (Path(given[name]) for name in ("source", "names", "folder"))
    with failing(module):
        if not module.check_mode:
            carry(site, int(srun["job"]), srun["node"], source, names, folder, given["become"])
    module.exit_json(changed=True, carried=names.read_bytes().count(b"\0"))


if __name__ == "__main__":
    main()
