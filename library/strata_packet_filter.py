#!/usr/bin/python
"""The rules of a host's packet filter: taken out of the way, and put back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_packet_filter
short_description: Take the rules that an engine or a cluster wrote out of the way, and put them back
description:
  - The rules lie in Strata's state folder until they are back, so that a kill does not lose them.
  - Fails where a rule is neither an engine's nor a cluster's. No host's firewall is taken away.
options:
  state:
    description:
      - V(possible) looks whether the rules may be taken away.
      - V(proven) takes them away once, expects that no rule is there and that no connection is tracked, and puts them back.
      - V(back) puts back what is still away.
      - V(none) fails where some are still away.
    type: str
    required: true
    choices: [possible, proven, back, none]
  state_dir:
    description: Strata's folder on the host.
    type: path
    required: true
attributes:
  check_mode:
    description: Nothing is taken away or put back; whether it may be is looked for.
    support: full
  diff_mode:
    description: The rules are the same before and after.
    support: none
"""

EXAMPLES = r"""
- name: Prove that the rules can be out of the way, and come back
  strata_packet_filter:
    state: proven
    state_dir: /var/lib/strata
"""

RETURN = r"""
seen:
  description: "With V(proven): C(rules), how many there are, and C(connections), whether they are C(tracked) or C(free) with them."
  returned: success
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import Refused, failing
from ansible.module_utils.strata.host import packet_filter


def main() -> None:
    choices = ["possible", "proven", "back", "none"]
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "required": True, "choices": choices},
            "state_dir": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["state_dir"])
    state = module.params["state"]
    away, seen = packet_filter.are_away(folder), dict[str, str]()
    with failing(module):
        if state == "none" and away:
            raise Refused(
                "the packet filter's rules are in place",
                given=f"they are still away, kept in {folder}",
                then="run the same command again: it puts them back first",
            )
        if state == "back" and not module.check_mode:
            packet_filter.put_back(folder)
        if state in ("possible", "proven") and not away:
            packet_filter.check(packet_filter.read())
        if state == "proven" and not module.check_mode:
            seen = packet_filter.prove(folder)
    module.exit_json(changed=state == "back" and away, seen=seen)


if __name__ == "__main__":
    main()
