"""Documentation of the action plugin `strata_rebuild`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_rebuild
short_description: Hold a testbed that is built again against the lock of a run on it
description:
  - The lock lies in the results folder of the run and is never changed. What came of each rebuild is kept beside it.
options:
  folder:
    description: The results folder of the run.
    type: path
    required: true
  state:
    description:
      - V(read) reads the lock.
      - V(checked) refuses each line of it that cannot be had, as far as is known. Hosts that are not in O(hosts) are not there yet.
      - V(begun) notes in the journal of the run that the testbed is about to be taken down.
      - V(kept) keeps what differs now that all of them were built again, and tells it.
    type: str
    required: true
    choices: [read, checked, begun, kept]
  rebuild:
    description: Which rebuild of the run's plan it is, for V(begun), and for V(kept) where the journal is to tell it; 0 for none.
    type: int
    default: 0
  names:
    description: All hosts of the testbed.
    type: list
    elements: str
    default: []
  hosts:
    description: By host that is there, its fingerprint with what it was built of.
    type: dict
    default: {}
  unavailable:
    description: By host, the packages of the lock that it lacks and that no source has, as M(strata_built) tells them.
    type: dict
    default: {}
  offers:
    description: By host that a provider makes, what it was asked for.
    type: dict
    default: {}
  images:
    description: The images that the controller's cache has.
    type: list
    elements: dict
    default: []
  runtimes:
    description: The runtimes of the plan.
    type: list
    elements: str
    default: []
  began:
    description: When the rebuild began, in UTC, for V(kept).
    type: str
    default: ""
  seconds:
    description: What each part of it took, for V(kept).
    type: dict
    default: {}
  lives:
    description: Of instances of hosts that providers made the moments of their lives, as M(strata_ledger) tells them, for V(kept).
    type: list
    elements: dict
    default: []
  instances:
    description: By host that a provider made, which instance it is now, for V(kept).
    type: dict
    default: {}
attributes:
  check_mode:
    description: Reads and checks; nothing is kept.
    support: full
  diff_mode:
    description: What is kept is new, never changed.
    support: none
"""

EXAMPLES = r"""
- name: Read the lock
  strata_rebuild:
    folder: results/quick-20260101T000000Z
    state: read
"""

RETURN = r"""
packages:
  description: The version of each package by host.
  returned: for read
  type: dict
confounds:
  description: How many differences are a confound.
  returned: for kept
  type: int
progress:
  description: The difference, a line for each.
  returned: for kept
  type: list
  elements: str
"""
