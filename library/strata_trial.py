#!/usr/bin/python
"""Run one trial on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_trial
short_description: Run this host's share of a slot and return what came of it
description:
  - Starts the workloads of the slot under their runtimes, pins and limits them, samples the host, enforces the time limit, leaves nothing behind.
  - A background job is started first, and told to end when the measured trial has ended.
  - Both trials of a duet are started, each on its half of the host's CPUs, and each goes on to its own end.
  - A trial that fails is a normal result. Its record says why.
  - The host must be held by the run, see M(strata_lease).
  - When the controller goes away the trials are ended and cleaned up.
options:
  slot:
    description: The slot as it stands in the plan, with C(run).
    type: dict
    required: true
  host:
    description: The name of this host in the plan.
    type: str
    required: true
  addresses:
    description: Where the hosts of the slot reach each other.
    type: dict
    default: {}
  places:
    description: "Addresses on the network of a setting, by host: C(host) its own, C(members) the first of those for containers."
    type: dict
    default: {}
  key:
    description: What the programs of a distributed trial prove to each other that they belong together with.
    type: str
    default: ""
  images:
    description: For each family of workloads the image on this host, C(family), C(kind), C(digest), C(rootfs).
    type: dict
    required: true
  dataset:
    description: The dataset on this host, C(name), C(digest), C(origin), C(path); empty without.
    type: dict
    default: {}
  reference:
    description: The host's fingerprint when the run was opened; what has changed since is recorded.
    type: dict
    default: {}
  judged:
    description: Whether what else the host does decides anything. It is then given a moment to be idle first, and its speed is measured before and after.
    type: bool
    default: true
  holder:
    description: Who holds the lease, as given to M(strata_lease).
    type: dict
    required: true
  time_limit_s:
    description: Seconds after which a trial is ended.
    type: float
    default: 900
  state_dir:
    description: Strata's folder on the host.
    type: path
    required: true
attributes:
  check_mode:
    description: Starts nothing and says what it would run.
    support: full
  diff_mode:
    description: A trial changes nothing that lasts.
    support: none
"""

EXAMPLES = r"""
- name: Run the slot
  strata_trial:
    slot: "{{ slot | combine({'run': run}) }}"
    host: "{{ inventory_hostname }}"
    images: "{{ workload_image_held.images }}"
    holder: "{{ controller }}"
    state_dir: /var/lib/strata
"""

RETURN = r"""
would_run:
  description: Which trials would run, and on what.
  returned: in check mode
  type: str
outcomes:
  description: One for each member of a trial that ran on this host.
  returned: when not in check mode
  type: list
  elements: dict
  contains:
    record:
      description: The record, see docs/results.md, with C(member).
      type: dict
    steps:
      description: The steps, a JSON object on each line.
      type: str
    trace:
      description: A trace of TensorFlow's profiler in base64, where the experiment asks for one, or empty.
      type: str
    usage:
      description: The samples of host and workload.
      type: list
      elements: dict
    stdout:
      description: The last 64 KiB of standard output.
      type: str
    stderr:
      description: The last 64 KiB of standard error.
      type: str
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import members
from ansible.module_utils.strata.cell import Platform
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import lease
from ansible.module_utils.strata.trial import slot as trial
from ansible.module_utils.strata.trial import termination
from ansible.module_utils.strata.trial.order import Order

# The lease outlives a trial by this much, so that the next one finds it.
LEASE_MARGIN_S = 3600


def describe(slot: dict[str, Any], host: str) -> str:
    """What runs on this host, in a line."""
    here = [trial for trial in slot["trials"] if members.on(host, trial)]
    return " beside ".join(_name(trial) for trial in here)


def _name(asked: dict[str, Any]) -> str:
    levels = asked["levels"]
    return f"trial {asked['trial']}: {levels['workload']} on {Platform.of(levels)}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "slot": {"type": "dict", "required": True},
            "host": {"type": "str", "required": True},
            "addresses": {"type": "dict", "default": {}},
            "places": {"type": "dict", "default": {}},
            "key": {"type": "str", "default": "", "no_log": True},
            "images": {"type": "dict", "required": True},
            "dataset": {"type": "dict", "default": {}},
            "reference": {"type": "dict", "default": {}},
            "judged": {"type": "bool", "default": True},
            "holder": {"type": "dict", "required": True},
            "time_limit_s": {"type": "float", "default": 900},
            "state_dir": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    if module.check_mode:
        module.exit_json(changed=False, would_run=describe(given["slot"], given["host"]))
    os.umask(0o022)
    order = Order.of(given)
    run, holder = order.slot["run"], given["holder"]
    with failing(module):
        lease.refresh(run, holder, int(order.time_limit_s + LEASE_MARGIN_S))
        outcomes = trial.run(order, termination.Controller(holder, run).gone)
    module.exit_json(changed=True, outcomes=outcomes)


if __name__ == "__main__":
    main()
