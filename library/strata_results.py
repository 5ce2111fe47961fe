"""Documentation of the action plugin `strata_results`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_results
short_description: Open, fill, close, verify and analyse the results folder of a run
description:
  - Writes are atomic and synced. Nothing that is measured is replaced.
options:
  state:
    description:
      - V(opened) makes the folder, or checks that it can be resumed; V(begun) notes that a slot starts.
      - V(failed) says which slots failed and are to be tried again.
      - V(stored) keeps the outcomes of a slot; V(closed) writes the totals.
      - V(verified) checks that every slot has its records; V(reported) writes tables and page.
    type: str
    required: true
    choices: [opened, failed, begun, stored, closed, verified, reported]
  folder:
    description: The results folder of the run.
    type: path
    required: true
  plan:
    description: The plan, for V(opened), V(verified) and V(reported); a run of another plan is refused.
    type: dict
  images:
    description: The images of the workloads, one of a family, for V(opened).
    type: list
    elements: dict
  dataset:
    description: The dataset, for V(opened).
    type: dict
  testbed:
    description: Name of the inventory, for V(opened).
    type: str
  hosts:
    description: The fingerprint of each host, for V(opened).
    type: dict
  slot:
    description: The slot, for V(begun) and V(stored).
    type: dict
  outcomes:
    description: What M(strata_trial) returned on each host of the slot, for V(stored).
    type: list
    elements: dict
  retry:
    description: Causes for which a failed trial is tried again, for V(opened) and V(failed).
    type: list
    elements: str
    default: []
  attempts:
    description: How often a trial is tried in all.
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
  strata_results:
    state: closed
    folder: results/quick-20260101T000000Z
"""

RETURN = r"""
pending:
  description: Slots that have no record yet, or are to be tried again.
  returned: for opened and failed
  type: list
  elements: dict
references:
  description: The fingerprint of each host when the run was opened.
  returned: for opened
  type: dict
key:
  description: A secret of the slot.
  returned: for begun
  type: str
silent:
  description: Hosts of the slot that gave no answer.
  returned: for stored
  type: list
  elements: str
totals:
  description: Trials, failed ones, seconds in all and within trials.
  returned: for closed
  type: dict
"""
