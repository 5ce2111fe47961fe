#!/usr/bin/python
"""Hold a host for one run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_lease
short_description: Hold this host for one run
description:
  - Takes, prolongs or gives back the lease of the host.
  - Refuses when another run, or another controller of the same run, holds it, be it with another account.
  - One that is held to build on it is waited for, in words; one that is held to measure is not.
  - A lease ends by itself with its controller where that is this machine, at a reboot,
    and when it expires.
options:
  run:
    description: Name of the run.
    type: str
    required: true
  holder:
    description: The controller's process.
    type: dict
    required: true
    suboptions:
      host:
        description: Host name of the controller.
        type: str
        required: true
      machine:
        description: Names the installation of the controller, and tells it from another of its name.
        type: str
        default: ""
      pid:
        description: Number of the ansible-playbook process.
        type: int
        required: true
      start:
        description:
          - Its start in clock ticks after boot, field 22 of V(/proc/PID/stat).
          - Tells it from a later process with its number.
        type: int
        required: true
  ttl_s:
    description: Seconds after which it expires unless it is prolonged. Every trial prolongs it.
    type: int
    default: 3600
  use:
    description: What the host is held for. A controller builds, generates and carries.
    type: str
    choices: [measure, build]
    default: measure
  patience_s:
    description: Seconds to wait for a holder that builds.
    type: int
    default: 0
  force:
    description: Take it from whoever has it. Only for a holder that is known to be dead.
    type: bool
    default: false
  state:
    description: Whether to hold the host or to let it go.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Says what would change, and refuses what would be refused.
    support: full
  diff_mode:
    description: Shows the run before and after.
    support: full
"""

EXAMPLES = r"""
- name: Hold the host
  strata_lease:
    run: quick-20260101T000000Z
    holder: {host: controller, pid: 4711, start: 123456}

- name: Let it go
  strata_lease:
    run: quick-20260101T000000Z
    holder: {host: controller, pid: 4711, start: 123456}
    state: absent
"""

RETURN = r"""
lease:
  description: The lease that was in force before; empty without one.
  returned: success
  type: dict
held:
  description: The lease of the holder, and in words who it is.
  returned: when another holds the host
  type: dict
  contains:
    use: {description: measure or build, type: str}
    description: {description: who and since when, type: str}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import lease

HOLDER = {
    "host": {"type": "str", "required": True},
    "machine": {"type": "str", "default": ""},
    "pid": {"type": "int", "required": True},
    "start": {"type": "int", "required": True},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run": {"type": "str", "required": True},
            "holder": {"type": "dict", "required": True, "options": HOLDER},
            "ttl_s": {"type": "int", "default": 3600},
            "use": {"type": "str", "choices": ["measure", "build"], "default": "measure"},
            # Waiting is the action plugin's, which can say so.
            "patience_s": {"type": "int", "default": 0},
            "force": {"type": "bool", "default": False},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    with failing(module):
        try:
            before = lease.current()
            changed = change(module.params, module.check_mode)
        except lease.Held as held:
            other = {"use": held.lease.get("use", ""), "description": lease.describe(held.lease)}
            module.fail_json(msg=str(held), held=other)
    shown = before["run"] if before else "nobody"
    after = module.params["run"] if module.params["state"] == "present" else "nobody"
    module.exit_json(
        changed=changed,
        lease=before or {},
        diff={
            "before": f"held by {shown}\n",
            "after": f"held by {after if changed else shown}\n",
        },
    )


def change(given: dict[str, Any], check: bool) -> bool:
    """Take, prolong or give back; whether that changes who holds the host. Raises Refused."""
    run, holder = given["run"], given["holder"]
    if given["state"] == "absent":
        return bool(lease.is_ours(run, holder) if check else lease.release(run, holder))
    if check:
        return bool(lease.would_change(run, holder, given["force"]))
    return bool(lease.acquire(run, holder, given["ttl_s"], given["force"], given["use"]))


if __name__ == "__main__":
    main()
