#!/usr/bin/python
"""Look for what is left of the rehearsal cloud."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_rehearsal_cloud
short_description: Look for what is left of the rehearsal cloud, and remove it
description:
  - Looks for processes, network namespaces, interfaces, firewall rules, libvirt's domains and files of the cloud.
  - With O(state=removed) it ends the processes, and removes all but the firewall rules.
  - With O(state=absent) it fails when anything is there.
options:
  folder:
    description: The folder of everything that the cloud has.
    type: path
    required: true
  run:
    description: Its folder of sockets.
    type: path
    required: true
  state:
    description: Whether to remove what is there, or to insist that nothing is.
    type: str
    choices: [removed, absent]
    required: true
attributes:
  check_mode:
    description: Looks, removes nothing, and does not insist.
    support: full
  diff_mode:
    description: Shows what is there before and after.
    support: full
"""

EXAMPLES = r"""
- name: Insist that nothing is left
  strata_rehearsal_cloud:
    folder: /var/lib/strata-openstack
    run: /run/strata-openstack
    state: absent
"""

RETURN = r"""
found:
  description: What is there, by kind.
  returned: always
  type: dict
progress:
  description: A line for people.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.openstack.rehearsal import Cloud


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "run": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["removed", "absent"], "required": True},
        },
        supports_check_mode=True,
    )
    with failing(module):
        change(module, Cloud(Path(module.params["folder"]), Path(module.params["run"])))


def change(module: AnsibleModule, cloud: Cloud) -> None:
    """Leaves through exit_json, or fail_json when something is left. Raises Refused."""
    state = module.params["state"]
    before = present(cloud.found())
    after = before
    if state == "removed" and before and not module.check_mode:
        cloud.remove()
        after = present(cloud.found())
    left = [f"{kind}: {', '.join(names)}" for kind, names in after.items()]
    if state == "absent" and left and not module.check_mode:
        module.fail_json(
            msg="something of the rehearsal cloud is left\nfound: " + "\n       ".join(left),
            found=after,
        )
    kinds = ", ".join(cloud.found())
    module.exit_json(
        changed=after != before,
        found=after,
        progress=[f"nothing of the cloud is left: {kinds}"] if state == "absent" else [],
        diff={"before": before, "after": after},
    )


def present(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {kind: names for kind, names in found.items() if names}


if __name__ == "__main__":
    main()
