#!/usr/bin/python
"""Remove all of Strata's things from a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_clean
short_description: Remove all of Strata's things from this host, and prove it
description:
  - Removes containers, images, control groups, leases, and from the state folder what Strata made there, by name.
  - Looks again afterwards and fails when anything of Strata's is left. What else is in the folder stays, and is named.
  - Refuses while a run holds the host, and a state folder that is not Strata's.
options:
  state_dir:
    description: Strata's folder on the host, with the marker that Strata put there.
    type: path
    required: true
  force:
    description: Remove a lease as well. Only for a holder that is known to be dead, see M(strata_lease_info).
    type: bool
    default: false
attributes:
  check_mode:
    description: Lists what would be removed.
    support: full
  diff_mode:
    description: Shows what is there before and after.
    support: full
"""

EXAMPLES = r"""
- name: Remove everything
  strata_clean:
    state_dir: /var/lib/strata
"""

RETURN = r"""
removed:
  description: What was there, by kind.
  returned: success
  type: dict
left:
  description: What lies in the state folder and is not Strata's.
  returned: success
  type: list
  elements: str
elsewhere:
  description: Other state folders that Strata has on this host. They stay as they are.
  returned: success
  type: list
  elements: str
progress:
  description: A line for each of these.
  returned: success
  type: list
  elements: str
"""

import platform
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import runtimes
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import clean, lease
from ansible.module_utils.strata.host.owned import Folder


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "required": True},
            "force": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    held = lease.current()
    if held and not module.params["force"]:
        module.fail_json(msg=f"this host is held by run {held['run']}; end it first")
    with failing(module):
        change(module, Folder(Path(module.params["state_dir"]), "state"))


def change(module: AnsibleModule, state: Folder) -> None:
    """Remove all; leaves through exit_json, or fail_json when something is left. Raises Refused."""
    state.is_ours()
    before, foreign = found(state), state.foreign()
    if not module.check_mode:
        runtimes.remove()
        stuck = clean.remove(state)
        after = {kind: names for kind, names in found(state).items() if names}
        if after:
            msg = f"something of Strata's is left: {after}"
            module.fail_json(msg="\n".join([msg, *stuck]), removed=before)
    elsewhere = state.elsewhere()
    module.exit_json(
        changed=any(before.values()),
        removed=before,
        left=foreign,
        elsewhere=elsewhere,
        progress=remarks(foreign, elsewhere),
        diff={"before": before, "after": {kind: [] for kind in before}},
    )


def found(state: Folder) -> dict[str, list[str]]:
    """Everything of Strata's on this host, by kind."""
    return {**runtimes.found(), **clean.found(state)}


def remarks(foreign: list[str], elsewhere: list[str]) -> list[str]:
    """What a person should know of this host."""
    here = platform.node()
    return [f"{here}: {path!r} is not Strata's, and stays" for path in foreign] + [
        f"{here}: {path!r} is a state folder of Strata's as well, and stays; to remove it: "
        f"-e strata_state_dir={path}"
        for path in elsewhere
    ]


if __name__ == "__main__":
    main()
