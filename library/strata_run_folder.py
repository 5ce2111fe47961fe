"""Documentation of the action plugin `strata_run_folder`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_run_folder
short_description: Open, close and verify the results folder of a run
description:
  - Writes are atomic and synced. Nothing that is measured is replaced.
options:
  folder:
    description: The results folder of the run.
    type: path
    required: true
  rests:
    description: What M(strata_rest) said of each host, for V(rested).
    type: dict
    default: {}
  state:
    description:
      - V(opened) makes the folder, or resumes the run that is in it.
      - V(rested) notes whether the hosts have come to rest; V(closed) writes the totals. It is refused when the setting of a block could not be switched to.
      - V(verified) checks that every slot has its records, and reads them.
    type: str
    required: true
    choices: [opened, rested, closed, verified]
  plan:
    description: The plan, for V(opened) and V(verified); a run of another plan is refused.
    type: dict
    default: {}
  images:
    description: The images of the workloads, one of a family, for V(opened).
    type: list
    elements: dict
    default: []
  dataset:
    description: The dataset, for V(opened); empty where none is read.
    type: dict
    default: {}
  testbed:
    description: Name of the inventory, for V(opened).
    type: str
    default: ""
  hosts:
    description: The fingerprint of each host, for V(opened).
    type: dict
    default: {}
  built:
    description: What each host was built of, as M(strata_built) tells it, for V(opened). It stands in the lock of the testbed.
    type: dict
    default: {}
  offers:
    description: By host what its provider was asked for, for V(opened). It stands there as well.
    type: dict
    default: {}
  lives:
    description: Of instances of hosts that providers made the moments of their lives, as M(strata_ledger) tells them, for V(opened).
    type: list
    elements: dict
    default: []
  retry:
    description: Causes for which a failed trial is tried again, for V(opened).
    type: list
    elements: str
    default: []
  attempts:
    description: How often a trial is tried in all, for V(opened).
    type: int
    default: 1
attributes:
  check_mode:
    description: In check mode nothing is written.
    support: full
  diff_mode:
    description: Results are new, never changed.
    support: none
"""

EXAMPLES = r"""
- name: Close the results folder
  strata_run_folder:
    state: closed
    folder: results/quick-20260101T000000Z
"""

RETURN = r"""
blocks:
  description: The blocks of the slots that have no record yet, or are to be tried again, in the order of the plan.
  returned: for opened
  type: list
  elements: dict
  contains: &block
    block:
      description: Its name.
      type: str
    setting:
      description: What must be switched to before it is measured. Empty where nothing must.
      type: str
    role:
      description: The role that switches to the setting.
      type: str
    hosts:
      description: The hosts on which the setting is made.
      type: list
      elements: str
    slots:
      description: Its slots that are to be measured, in the order of the plan.
      type: list
      elements: dict
    pairs:
      description: The same slots, by what is compared with each other.
      type: list
      elements: list
    rebuild:
      description: The rebuild of the testbed on which it is to be measured; 0 where that is built once.
      type: int
    before:
      description: What comes before its first trial where the testbed is built again for it.
      type: dict
unleft:
  description: The blocks whose setting may still be in place, since a run before was killed in them. They have no slots.
  returned: for opened
  type: list
  elements: dict
  contains: *block
references:
  description: The fingerprint of each host when the run was opened.
  returned: for opened
  type: dict
totals:
  description: Trials, failed ones, seconds in all and within trials.
  returned: for closed
  type: dict
before:
  description: What comes before the first trial, with C(share) and C(patience_s) for M(strata_rest), and C(slots) that are run and not measured.
  returned: for opened
  type: dict
"""
