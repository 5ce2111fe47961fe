"""Documentation of the action plugin `strata_settings`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_settings
short_description: Refuse settings that nothing reads
description:
  - Looks at the names of all variables of all hosts, and refuses one that begins as Strata's do and is none.
  - It is the first task of a playbook, before anything is registered. Touches no host and writes nothing.
options: {}
attributes:
  check_mode:
    description: It never changes anything.
    support: full
  diff_mode:
    description: It never changes anything.
    support: none
"""

EXAMPLES = r"""
- name: Refuse settings that nobody reads
  strata_settings:
"""

RETURN = r"""
changed: {description: Never., returned: always, type: bool}
"""
