#!/usr/bin/python
"""The state of a host's network before and after a setting."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_network_state
short_description: Note the state of a host's network, and compare it later
description:
  - What a network could leave behind is read from the running system, as C(docs/networks.md) lists it.
  - The note lies in Strata's state folder until the state is the same again.
options:
  state:
    description:
      - V(noted) notes the state before a setting is made, unless that was done already.
      - V(same) compares it, and fails with each difference unless there is none; then the note goes.
      - V(found) says which setting the note on the host is of.
    type: str
    required: true
    choices: [noted, same, found]
  state_dir:
    description: Strata's folder on the host.
    type: path
    required: true
  run:
    description: The run, for V(noted) and V(same).
    type: str
  setting:
    description: The setting that is switched to, for V(noted) and V(same).
    type: str
  role:
    description: The role that makes it, for V(noted). Teardown calls it where no run goes on.
    type: str
    default: ""
  hosts:
    description: The hosts of the setting with their addresses, for V(noted).
    type: dict
    default: {}
attributes:
  check_mode:
    description: Nothing is written; what would be compared is compared.
    support: full
  diff_mode:
    description: Differences are what it fails with.
    support: none
"""

EXAMPLES = r"""
- name: Note the state of the network before anything is made
  strata_network_state:
    state: noted
    state_dir: /var/lib/strata
    run: overlays-20260101T000000Z
    setting: vxlan
    role: vxlan
    hosts: {node1: 10.0.0.11, node2: 10.0.0.12}
"""

RETURN = r"""
note:
  description: Whose note is on the host, C(run), C(setting), C(role), C(hosts), C(boot); empty where there is none.
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import network_note, network_state


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "required": True, "choices": ["noted", "same", "found"]},
            "state_dir": {"type": "path", "required": True},
            "run": {"type": "str"},
            "setting": {"type": "str"},
            "role": {"type": "str", "default": ""},
            "hosts": {"type": "dict", "default": {}},
        },
        required_if=[("state", state, ("run", "setting")) for state in ("noted", "same")],
        supports_check_mode=True,
    )
    given = module.params
    folder, whose = Path(given["state_dir"]), (given["run"], given["setting"])
    with failing(module):
        before = network_note.read(folder)
        note, found = before, list[str]()
        if given["state"] == "noted" and not module.check_mode:
            note = network_note.begin(folder, *whose, given["role"], given["hosts"])
        elif given["state"] == "same" and module.check_mode and before:
            found = network_state.differences(before.state, network_state.capture())
        elif given["state"] == "same" and not module.check_mode:
            found = network_note.compare(folder, *whose)
            note = network_note.read(folder)
    if found:
        module.fail_json(msg=network_note.message(folder, given["setting"], found))
    module.exit_json(changed=note != before, note=network_note.document(note))


if __name__ == "__main__":
    main()
