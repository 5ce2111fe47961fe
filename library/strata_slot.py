"""Documentation of the action plugin `strata_slot`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_slot
short_description: Note that a slot of a run begins, and keep what came of it
description:
  - Writes are atomic and synced. Nothing that is measured is replaced.
options:
  folder:
    description: The results folder of the run.
    type: path
    required: true
  state:
    description:
      - V(begun) notes that the slot starts; V(stored) keeps the outcomes of its trials; V(warmed_up) notes that it was run, and keeps nothing of it.
    type: str
    required: true
    choices: [begun, stored, warmed_up]
  slot:
    description: The slot as it stands in the plan.
    type: dict
    required: true
  outcomes:
    description: What M(strata_trial) returned on each host of the slot, for V(stored) and V(warmed_up).
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    description: In check mode nothing is written.
    support: full
  diff_mode:
    description: Results are new, never changed.
    support: none
"""

EXAMPLES = r"""
- name: Begin the slot
  strata_slot:
    state: begun
    folder: results/quick-20260101T000000Z
    slot: "{{ slot }}"
"""

RETURN = r"""
silent:
  description: Hosts of the slot that gave no answer.
  returned: for stored
  type: list
  elements: str
stopped:
  description: Whether the experiment's C(stop) has ended the run, so that no other slot is measured.
  returned: for stored
  type: bool
lost:
  description: Trials of the slot that did not end well.
  returned: for stored
  type: list
  elements: str
again:
  description: The slots that are to be run again now, since something disturbed one of those that are compared with this one.
  returned: for stored
  type: list
  elements: dict
"""
