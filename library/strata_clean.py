#!/usr/bin/python
"""Remove all of Strata's things from a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_clean
short_description: Remove all of Strata's things from this host, and prove it
description:
  - Removes containers, images, control groups, datasets, the state folder and the lease.
  - Looks again afterwards and fails when anything is left.
  - Refuses while a run holds the host.
options:
  state_dir:
    description: Strata's folder on the host.
    type: path
    required: true
  force:
    description: Remove a lease as well. Only for a holder that is known to be dead, see M(strata_held).
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
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import clean, lease


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "required": True},
            "force": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    state_dir = Path(module.params["state_dir"])
    held = lease.current()
    if held and not module.params["force"]:
        module.fail_json(msg=f"this host is held by run {held['run']}; end it first")
    before = clean.found(state_dir)
    if any(before.values()) and not module.check_mode:
        clean.remove(state_dir)
        after = clean.found(state_dir)
        if any(after.values()):
            module.fail_json(msg=f"something of Strata's is left: {after}", removed=before)
    module.exit_json(
        changed=any(before.values()),
        removed=before,
        diff={"before": before, "after": {kind: [] for kind in before}},
    )


if __name__ == "__main__":
    main()
