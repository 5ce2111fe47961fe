#!/usr/bin/python
"""Make a folder Strata's, or take what is Strata's out of it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_folder
short_description: Make a folder Strata's, or take what is Strata's out of it
description:
  - Claims a folder that is empty or not there, by a marker in it; refuses any other that has no marker.
  - Removes from a claimed folder what Strata makes there, by name. Follows no link and enters no other file system.
    The marker goes with the last of it, and the folder when Strata made it and it is empty.
options:
  path:
    description: The folder.
    type: path
    required: true
  kind:
    description: What Strata keeps in it.
    type: str
    choices: [state, cache, cloud, guests]
    required: true
  state:
    description: V(present) claims it, V(absent) empties it.
    type: str
    choices: [present, absent]
    default: present
  keep:
    description: Names that stay in it, for O(state=absent).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Refuses what it would refuse, and says what would change.
    support: full
  diff_mode:
    description: Shows what of it is Strata's before and after.
    support: full
"""

EXAMPLES = r"""
- name: Claim the cache
  strata_folder:
    path: /srv/bigdisk/strata
    kind: cache

- name: Remove images, datasets and downloads
  strata_folder:
    path: /srv/bigdisk/strata
    kind: cache
    state: absent
    keep: [rehearsal]
"""

RETURN = r"""
left:
  description: What lies in it and is not Strata's, for O(state=absent).
  returned: success
  type: list
  elements: str
progress:
  description: A line for each of these.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host.owned import Folder


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "kind": {
                "type": "str",
                "choices": ["state", "cache", "cloud", "guests"],
                "required": True,
            },
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "keep": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    given = module.params
    folder = Folder(Path(given["path"]), given["kind"])
    with failing(module):
        if given["state"] == "present":
            claim(module, folder)
        else:
            empty(module, folder, given["keep"])


def claim(module: AnsibleModule, folder: Folder) -> None:
    """Leaves through exit_json. Raises Refused."""
    changed = not folder.is_ours()
    if not module.check_mode:
        folder.claim()
    ours = [str(folder.path)]
    module.exit_json(changed=changed, diff=diff([] if changed else ours, ours))


def empty(module: AnsibleModule, folder: Folder, keep: list[str]) -> None:
    """Leaves through exit_json, or fail_json when something could not be removed. Raises Refused."""
    folder.is_ours()
    before, foreign = folder.found(), folder.foreign()
    kept = [path for path in before[1:] if Path(path).name in keep]
    after = [str(folder.path), *kept] if kept else []
    if not module.check_mode:
        stuck = folder.remove(keep)
        if stuck:
            module.fail_json(msg="\n".join(["something of Strata's could not be removed", *stuck]))
    module.exit_json(
        changed=before != after,
        left=foreign,
        progress=[
            f"{path!r} is not Strata's, and stays" for path in foreign if not module.check_mode
        ],
        diff=diff(before, after),
    )


def diff(before: list[str], after: list[str]) -> dict[str, str]:
    """What is Strata's, a path a line."""
    return {
        "before": "".join(f"{path}\n" for path in before),
        "after": "".join(f"{path}\n" for path in after),
    }


if __name__ == "__main__":
    main()
