"""Documentation of the action plugin `strata_report`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_report
short_description: Make the tables and the page of a run
description:
  - A run in which no measured trial ended well has a report as well; then the task fails.
options:
  folder:
    description: The results folder of the run.
    type: path
    required: true
  plan:
    description: The plan; a run of another plan is refused.
    type: dict
    required: true
attributes:
  check_mode:
    description: In check mode nothing is written.
    support: full
  diff_mode:
    description: A report is made as a whole.
    support: none
"""

EXAMPLES = r"""
- name: Make the tables and the page
  strata_report:
    folder: results/quick-20260101T000000Z
    plan: "{{ plan }}"
"""

RETURN = r"""
progress:
  description: The report in a few lines, and where it is.
  returned: success
  type: list
  elements: str
"""
