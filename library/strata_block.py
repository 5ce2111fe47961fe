"""Documentation of the action plugin `strata_block`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_block
short_description: Note in the journal of a run how far the switch of a block's setting is
description:
  - Each state is an event of the journal, which is synced, and a line of progress. The switch itself is the work of the setting's role.
options:
  folder:
    description: The results folder of the run.
    type: path
    required: true
  state:
    description:
      - V(begun) comes before anything is made on a host; from then on the setting may be there.
      - V(proven) says that all of it is there, V(failed) that it could not be made, proven or left.
      - V(left) says that nothing of it is there any more.
    type: str
    required: true
    choices: [begun, proven, failed, left]
  block:
    description: The block, as M(strata_run_folder) returns it.
    type: dict
    required: true
  stage:
    description: What has failed, for V(failed); V(measured) where it was proven, and is not any more after a trial that failed.
    type: str
    choices: [present, prove, measured, absent]
    default: present
  results:
    description: The result of the task that failed, by host, for V(failed). Hosts on which none has failed may be in it.
    type: dict
    default: {}
  proven:
    description: Hosts that were seen to have nothing of the setting, for V(left). One that is missing is refused.
    type: list
    elements: str
    default: []
  seen:
    description: What the role read of the running system, by host, for V(proven).
    type: dict
    default: {}
attributes:
  check_mode:
    description: In check mode nothing is written.
    support: full
  diff_mode:
    description: The journal only grows.
    support: none
"""

EXAMPLES = r"""
- name: Note that the setting is switched to
  strata_block:
    state: begun
    folder: results/quick-20260101T000000Z
    block: "{{ block }}"
"""

RETURN = r"""
proven:
  description: Whether the block can be measured.
  returned: success
  type: bool
message:
  description: Why the setting could not be made, proven or left.
  returned: for failed
  type: str
"""
