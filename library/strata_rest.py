#!/usr/bin/python
"""Wait until a host has come to rest."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_rest
short_description: Wait until nothing else uses the CPUs of a host
description:
  - What deploy has done, and what a host does by itself after it, must not fall on the first trial.
  - The wait ends after O(patience_s) in any case, and says whether the host is at rest.
options:
  share:
    description: The share of the CPU time, from 0 to 1, that others may use.
    type: float
    required: true
  patience_s:
    description: Seconds after which the wait ends.
    type: float
    required: true
attributes:
  check_mode:
    description: In check mode nothing is waited for.
    support: full
  diff_mode:
    description: It never changes anything.
    support: none
"""

EXAMPLES = r"""
- name: Let the host come to rest
  strata_rest:
    share: 0.05
    patience_s: 30
"""

RETURN = r"""
rest:
  description: How the wait ended.
  returned: when not in check mode
  type: dict
  contains:
    rested:
      description: Whether the host is at rest.
      type: bool
    waited_s:
      description: Seconds that it took.
      type: float
    others:
      description: The share of the CPU time that others used in the end.
      type: float
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.host import rest


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "share": {"type": "float", "required": True},
            "patience_s": {"type": "float", "required": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False)
    found = rest.come_to_rest(module.params["share"], module.params["patience_s"])
    module.exit_json(changed=False, rest=asdict(found))


if __name__ == "__main__":
    main()
