#!/usr/bin/python
"""Proof that a network of pods is the one that was asked for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_pod_proof
short_description: Prove that packets between pods take what was asked for, and try a policy
description:
  - Reads routes, devices, programs of eBPF, and what Cilium's agent says of itself, as facts with a name each (module_utils/strata/host/datapath.py), and fails in a sentence with both values where a fact is another than is asked for.
  - Sends from this host's first pod to that of each other host, and fails likewise unless all of it takes the device (module_utils/strata/host/network_path.py).
  - A policy lets the first pods reach the second, and nobody else. A second pod tries to reach those of other hosts; the first reaches them before and after, or the module fails.
options:
  pods:
    description: "This host's pods and all that M(strata_pod_ends) says of them, by name: C(probe), which the policy admits, and C(closed)."
    type: dict
    required: true
  peers:
    description: The same of the other hosts, by their names.
    type: dict
    required: true
  stood:
    description: For how many seconds all of these pods have stood.
    type: float
    default: 0
  device:
    description: The device of the host that carries the packets.
    type: str
    required: true
  kind:
    description: Its kind, as C(ip -details link) says it.
    type: str
    required: true
  mtu:
    description: Bytes of the largest packet, as a pod sends it.
    type: int
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
    description: Nothing is sent in check mode.
    support: none
  diff_mode:
    description: Nothing is changed.
    support: none
"""

EXAMPLES = r"""
- name: Expect packets to take Calico's tunnel
  strata_pod_proof:
    pods: "{{ ends.pods }}"
    peers: {node2: "{{ hostvars.node2.ends.pods }}"}
    device: vxlan.calico
    kind: vxlan
    mtu: 1450
    asked: {vxlan.calico: vxlan id 4096 port 4789}
"""

RETURN = r"""
seen:
  description: All facts that were read, by name, and C(policies), C(enforced) or C(not enforced).
  returned: success
  type: dict
proven:
  description: A line for the device, and one for each peer.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host import datapath, network_path, network_policy


def main() -> None:
    text, pods = {"type": "str", "required": True}, {"type": "dict", "required": True}
    module = AnsibleModule(
        argument_spec={
            "pods": pods,
            "peers": pods,
            "stood": {"type": "float", "default": 0},
            "device": text,
            "kind": text,
            "mtu": {"type": "int", "required": True},
            "agent": {"type": "str", "default": ""},
            "asked": {"type": "dict", "default": {}},
        },
    )
    with failing(module, OSError):
        module.exit_json(changed=False, **prove(**module.params))


def prove(
    pods: dict[str, Any],
    peers: dict[str, Any],
    stood: float,
    device: str,
    kind: str,
    mtu: int,
    agent: str,
    asked: dict[str, str],
) -> dict[str, Any]:
    """What is asked for, what carries, what is enforced. Raises Refused."""
    probes = {host: there["probe"]["address"] for host, there in peers.items()}
    behind = {host: there["closed"]["address"] for host, there in peers.items()}
    admitted, denied = pods["probe"]["namespace"], pods["closed"]["namespace"]
    facts = datapath.facts(probes, [device, *datapath.devices_of(asked) - {device}], agent)
    datapath.check(asked, facts)
    end = network_path.End(
        address=pods["probe"]["address"],
        mtu=mtu,
        route="eth0",
        kind=kind,
        namespace=admitted,
        device=device,
        device_namespace="",
    )
    proven = network_path.prove(end, probes)
    enforced = network_policy.enforced(admitted, denied, behind, stood)
    seen = {**facts, "policies": "enforced" if enforced else "not enforced"}
    return {"seen": seen, "proven": proven}


if __name__ == "__main__":
    main()
