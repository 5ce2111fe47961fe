#!/usr/bin/python
"""Look for what a cluster or a network leaves on a host, or remove it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_remains
short_description: Look for what a cluster or a network leaves on a host, or remove it
description:
  - Everything is named by the caller. Nothing else is touched.
  - Needs iproute2, and what the packet filter's rules are read with where there are any.
options:
  what:
    description: Of whom, for people.
    type: str
    required: true
  links:
    description: Names of interfaces; one that ends in an asterisk is a beginning.
    type: list
    elements: str
    default: []
  routes:
    description: Ranges of IPv4; every route to an address within them.
    type: list
    elements: str
    default: []
  chains:
    description: Beginnings of chains of the packet filter, with every rule that leads to them.
    type: list
    elements: str
    default: []
  rules:
    description: Words; every rule of the packet filter that has one of them.
    type: list
    elements: str
    default: []
  sets:
    description: Beginnings of names of sets of addresses (C(ipset)).
    type: list
    elements: str
    default: []
  hooks:
    description: Beginnings of names of eBPF programs; the queue of each interface that calls one of them.
    type: list
    elements: str
    default: []
  tables:
    description: Numbers of routing tables; every rule of routing that leads to one of them, and its routes.
    type: list
    elements: str
    default: []
  paths:
    description: Files, folders and control groups; a name may hold an asterisk.
    type: list
    elements: str
    default: []
  programs:
    description: Names of programs that may be under way, and write what was removed; V(removed) waits for them, and removes that, too.
    type: list
    elements: str
    default: []
  targets:
    description: Ranges of IPv4; V(removed) waits until no rule of the packet filter sends packets there. Those of kube-proxy go a second after the pods.
    type: list
    elements: str
    default: []
  state:
    description: V(removed) removes all of it. V(absent) fails while any of it is there. V(found) only looks.
    type: str
    choices: [removed, absent, found]
    default: found
attributes:
  check_mode:
    description: Removes nothing, and says what would go.
    support: full
  diff_mode:
    description: Shows what is there before and after.
    support: full
"""

EXAMPLES = r"""
- name: Remove a bridge and its rules
  strata_remains:
    what: the bridge of the cluster
    links: [cni0]
    chains: [FLANNEL-]
    state: removed
"""

RETURN = r"""
found:
  description: What was there, by kind; a kind of which there was nothing is left out.
  returned: success
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import Refused, failing
from ansible.module_utils.strata.host import remains


def main() -> None:
    names: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "what": {"type": "str", "required": True},
            **dict.fromkeys([*remains.KINDS, *remains.PASSING], names),
            "state": {
                "type": "str",
                "choices": ["removed", "absent", "found"],
                "default": "found",
            },
        },
        supports_check_mode=True,
    )
    with failing(module):
        module.exit_json(**act(module))


def act(module: AnsibleModule) -> dict[str, Any]:
    """Look, and remove where that is asked. Raises Refused."""
    asked = {kind: module.params[kind] for kind in (*remains.KINDS, *remains.PASSING)}
    before = remains.found(asked)
    if module.params["state"] == "absent" and before:
        raise Refused(f"of {module.params['what']} something is left", given="\n" + lines(before))
    removes = module.params["state"] == "removed"
    if removes and not module.check_mode:
        remains.clear(asked)
    after = {} if removes else before
    return {
        "changed": before != after,
        "found": before,
        "diff": {"before": lines(before), "after": lines(after)},
    }


def lines(found: dict[str, list[str]]) -> str:
    """A line for each."""
    return "".join(f"{kind}: {name}\n" for kind, names in found.items() for name in names)


if __name__ == "__main__":
    main()
