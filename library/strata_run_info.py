"""Documentation of the action plugin `strata_run_info`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_run_info
short_description: Ask what a run has still to do
description:
  - Reads the results folder of the run, and writes nothing.
options:
  folder:
    description: The results folder of the run.
    type: path
    required: true
  retry:
    description: Causes for which a failed trial is tried again.
    type: list
    elements: str
    default: []
  attempts:
    description: How often a trial is tried in all.
    type: int
    default: 1
attributes:
  check_mode:
    description: There is no folder in check mode. It has nothing to do.
    support: full
  diff_mode:
    description: It never changes anything.
    support: none
"""

EXAMPLES = r"""
- name: Look which failed trials are to be tried again
  strata_run_info:
    folder: results/quick-20260101T000000Z
    retry: [host_lost]
    attempts: 2
"""

RETURN = r"""
again:
  description: The blocks that have failed trials which are to be tried again, with their slots, as M(strata_run_folder) returns blocks.
  returned: success
  type: list
  elements: dict
unleft:
  description: The blocks whose setting may still be in place, with no slots.
  returned: success
  type: list
  elements: dict
rebuild:
  description: The rebuild of the testbed that is in place; 0 where one was begun and not ended.
  returned: success
  type: int
"""
