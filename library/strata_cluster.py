#!/usr/bin/python
"""Look at a Kubernetes cluster that exists."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_cluster
short_description: Look at a Kubernetes cluster that exists, as the account of a kubeconfig
description:
  - Runs on the controller, and changes nothing.
  - Says what nodes are, refuses what cannot be had of them, waits for the pods that stand on each, and looks for what bears a testbed's name.
options:
  kubeconfig:
    description: The file with which the cluster is reached. Empty for the usual one of C(kubectl).
    type: str
    default: ""
  context:
    description: Its context. Empty for the current one.
    type: str
    default: ""
  hosts:
    description: Names of nodes.
    type: list
    elements: str
    default: []
  testbed:
    description: The testbed whose hosts they are.
    type: str
    required: true
  namespace:
    description: The namespace in which all of it is.
    type: str
    required: true
  privileged:
    description: Whether agents see all of their node.
    type: bool
    default: false
  sets:
    description: Names of daemon sets. The pods of the last are told.
    type: list
    elements: str
    default: []
  patience:
    description: Seconds for which their pods are waited for.
    type: float
    default: 300
  state:
    description:
      - V(offered) says what the nodes are, and refuses what cannot be had. V(described) says what their agents are told.
      - V(standing) waits for the pods of daemon sets. V(found) looks for what bears the testbed's name.
    type: str
    choices: [offered, described, standing, found]
    required: true
attributes:
  check_mode:
    description: Looks all the same, and waits for nothing.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Ask the cluster
  strata_cluster:
    kubeconfig: ~/.kube/config
    hosts: [worker-1, worker-2]
    testbed: mine
    namespace: strata
    state: offered
"""

RETURN = r"""
offers:
  description: By host what it is.
  returned: O(state=offered)
  type: dict
nodes:
  description: By node what its agent is told.
  returned: O(state=described)
  type: dict
pods:
  description: By node the C(pod) that stands there, and its C(uid).
  returned: O(state=standing)
  type: dict
found:
  description: What bears the testbed's name, by kind.
  returned: O(state=found)
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.cluster import nodes
from ansible.module_utils.strata.providers.cluster.site import Site


def main() -> None:
    texts = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "str", "default": ""},
            "context": {"type": "str", "default": ""},
            "hosts": texts,
            "testbed": {"type": "str", "required": True},
            "namespace": {"type": "str", "required": True},
            "privileged": {"type": "bool", "default": False},
            "sets": texts,
            "patience": {"type": "float", "default": 300},
            "state": {
                "type": "str",
                "choices": ["offered", "described", "standing", "found"],
                "required": True,
            },
        },
        supports_check_mode=True,
    )
    with failing(module):
        said = look(module.params, module.check_mode)
    module.exit_json(changed=False, **said)


def look(given: dict[str, Any], check: bool) -> dict[str, Any]:
    """What the cluster says. Raises Refused."""
    site = Site(given["kubeconfig"], given["context"])
    names = ("hosts", "testbed", "namespace", "privileged")
    asked = nodes.Asked(**{name: given[name] for name in names})
    if given["state"] == "offered":
        return {"offers": nodes.offer(site, asked)}
    if given["state"] == "described":
        return {"nodes": nodes.describe(site, asked)}
    if given["state"] == "found":
        return {"found": site.found(asked.testbed)}
    if check:
        return {"pods": nodes.running(site, asked, given["sets"][-1])}
    return {"pods": nodes.standing(site, asked, given["sets"], given["patience"])}


if __name__ == "__main__":
    main()
