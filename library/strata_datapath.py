#!/usr/bin/python
"""What carries packets between pods on this host, read from the running system."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_datapath
short_description: Compare what carries packets between pods with what is asked for
description:
  - Reads routes, devices, programs of eBPF, and what Cilium's agent says of itself, as facts with a name each (module_utils/strata/host/datapath.py).
  - Fails in a sentence with both values where a fact is another than is asked for.
options:
  peers:
    description: IPv4 addresses of pods on other hosts, by the names of these hosts.
    type: dict
    required: true
  devices:
    description: Devices of the host that carry the packets.
    type: list
    elements: str
    required: true
  agent:
    description: Path of the socket of Cilium's agent; empty where there is none.
    type: str
    default: ""
  asked:
    description: Facts, by their names, that must be what is said here.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Nothing is changed.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
"""

EXAMPLES = r"""
- name: Expect packets to take Calico's tunnel
  strata_datapath:
    peers: {node2: 10.218.7.65}
    devices: [vxlan.calico]
    asked: {vxlan.calico: vxlan id 4096 port 4789}
"""

RETURN = r"""
facts:
  description: All that was read, by name.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import datapath


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "peers": {"type": "dict", "required": True},
            "devices": {"type": "list", "elements": "str", "required": True},
            "agent": {"type": "str", "default": ""},
            "asked": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    given = module.params
    with failing(module):
        facts = datapath.facts(given["peers"], given["devices"], given["agent"])
        datapath.check(given["asked"], facts)
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
