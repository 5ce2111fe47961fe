#!/usr/bin/python
"""A network of pods, as its cluster has it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_pod_network
short_description: Have a network of pods in a cluster, take it out again, or look for it
description:
  - Runs on the controller, which may change everything in the cluster.
  - What the network has on hosts is not looked at.
options:
  kubeconfig:
    description: File with which the cluster is reached.
    type: path
    required: true
  network:
    description: What the cluster is told of it.
    type: dict
    required: true
    suboptions:
      namespace:
        description: The namespace of its objects, which is one of them.
        type: str
        required: true
      hosts:
        description: The hosts on which it is, as the cluster calls its nodes.
        type: list
        elements: str
        required: true
      objects:
        description: Its objects, in the order in which they are made.
        type: list
        elements: dict
        required: true
      probe:
        description: Pods that stand on each host for the proof, and what belongs to them.
        type: list
        elements: dict
        required: true
      kinds:
        description: File with the definitions of its kinds of objects, which the cluster is told first.
        type: path
        default: ""
      group:
        description: The API group of its own kinds of objects, whoever made them.
        type: str
        default: ""
      notes:
        description: Names of annotations that it makes on nodes.
        type: list
        elements: str
        default: []
  state:
    description:
      - V(present) has all of it, lets pods onto the hosts, and waits until these have a network.
      - V(removed) takes pods from the hosts, keeps others away, and removes all of it. No pod of it is on the hosts then; of the rest the cluster may not be through yet.
      - V(absent) waits for what is going, and fails where something is left.
    type: str
    choices: [present, removed, absent]
    required: true
attributes:
  check_mode:
    description: Says what would change.
    support: full
  diff_mode:
    description: Objects are named only.
    support: none
"""

EXAMPLES = r"""
- name: Take flannel out of the cluster
  strata_pod_network:
    kubeconfig: lab.conf
    network:
      namespace: kube-flannel
      hosts: [node1, node2]
      objects: "{{ lookup('file', 'kube-flannel.yml') | from_yaml_all }}"
      probe: []
    state: removed
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
names:
  description: What was made, changed or removed, by the names of objects.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.strata.errors import failing


def main() -> None:
    text, texts = {"type": "str", "default": ""}, {"type": "list", "elements": "str"}
    objects = {"type": "list", "elements": "dict", "required": True}
    network = {
        "namespace": {"type": "str", "required": True},
        "hosts": {**texts, "required": True},
        "objects": objects,
        "probe": objects,
        "kinds": {"type": "path", "default": ""},
        "group": text,
        "notes": {**texts, "default": []},
    }
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "network": {"type": "dict", "required": True, "options": network},
            "state": {
                "type": "str",
                "choices": ["present", "removed", "absent"],
                "required": True,
            },
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        from ansible.module_utils.strata.runtimes.kubernetes import (  # noqa: PLC0415 - it may lack
            pod_network,
        )
    except ImportError:
        module.fail_json(msg=missing_required_lib("kubernetes"))
    with failing(module):
        names = pod_network.act(
            given["state"],
            pod_network.Network(**given["network"]),
            given["kubeconfig"],
            Path(module.tmpdir),
            check=module.check_mode,
        )
    module.exit_json(changed=bool(names), names=names)


if __name__ == "__main__":
    main()
