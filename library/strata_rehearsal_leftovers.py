#!/usr/bin/python
"""Look for what is left of a rehearsal lab."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_rehearsal_leftovers
short_description: Look for what is left of a rehearsal lab, and remove it
description:
  - Looks for containers, networks, volumes, interfaces, firewall rules, control groups, processes,
    mounts and files that bear the lab's name; and in the engine for what bears that of the testbed.
  - With O(state=removed) it removes the files, the control groups and the connections that SSH keeps
    open. What the engine has is the engine's to remove, before.
  - With O(state=absent) it fails when anything is there.
options:
  name:
    description: Name of the lab.
    type: str
    required: true
  bridge:
    description: Its bridge.
    type: str
    required: true
  network:
    description: Its network in Docker.
    type: str
    required: true
  folder:
    description: The folder of its keys.
    type: path
    required: true
  control:
    description: The folder of its kept connections.
    type: path
    required: true
  inventory:
    description: The file with its nodes, where one was written.
    type: path
  testbed:
    description: The testbed whose hosts the nodes are.
    type: str
    default: ""
  state:
    description: Whether to look, to remove, or to insist that nothing is there.
    type: str
    choices: [looked, removed, absent]
    default: looked
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
  strata_rehearsal_leftovers:
    name: strata
    bridge: rh-strata
    network: rehearsal-strata
    folder: .cache/rehearsal/strata
    control: /run/strata-rehearsal/strata
    inventory: inventories/rehearsal/nodes.yml
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
from typing import Any

import docker
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.rehearsal.leftovers import Trace

NAMES = ("name", "bridge", "network")
PATHS = ("folder", "control")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **{name: {"type": "str", "required": True} for name in NAMES},
            **{name: {"type": "path", "required": True} for name in PATHS},
            "inventory": {"type": "path"},
            "testbed": {"type": "str", "default": ""},
            "state": {
                "type": "str",
                "choices": ["looked", "removed", "absent"],
                "default": "looked",
            },
        },
        supports_check_mode=True,
    )
    given = module.params
    trace = Trace(
        **{name: given[name] for name in NAMES},
        **{name: Path(given[name]) for name in PATHS},
        inventory=Path(given["inventory"]) if given["inventory"] else None,
        testbed=given["testbed"],
    )
    try:
        engine = docker.from_env()
    except docker.errors.DockerException:
        engine = None  # without one it can have nothing
    with failing(module):
        change(module, trace, engine)


def change(module: AnsibleModule, trace: Trace, engine: Any) -> None:
    """Remove what is asked for; leaves through exit_json, or fail_json when something is left.

    Raises Refused when the lab's files are not Strata's to remove.
    """
    state = module.params["state"]
    before = present(trace.found(engine))
    after = before
    if state == "removed" and not module.check_mode:
        trace.remove()
        after = present(trace.found(engine))
    left = [f"{kind}: {', '.join(names)}" for kind, names in after.items()]
    if state == "absent" and left and not module.check_mode:
        module.fail_json(
            msg="something of the rehearsal lab is left\nfound: " + "\n       ".join(left),
            found=after,
        )
    kinds = ", ".join(trace.found(None))
    module.exit_json(
        changed=after != before,
        found=after,
        progress=[f"nothing of the lab is left: {kinds}"] if state == "absent" and not left else [],
        diff={"before": before, "after": after},
    )


def present(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {kind: names for kind, names in found.items() if names}


if __name__ == "__main__":
    main()
