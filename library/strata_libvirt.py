#!/usr/bin/python
"""Ask a libvirt host about the machines of a testbed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_libvirt
short_description: Ask a libvirt host what it can give a testbed, and what it has of it
description:
  - Runs on the libvirt host, and needs the bindings for Python of its distribution.
  - Changes nothing. Machines are made from the definitions that it returns.
options:
  state:
    description:
      - V(offered) refuses what cannot be had, and says what each machine would be.
      - V(begun) waits until each machine runs and its address is known.
      - V(found) lists what bears the testbed's name.
    type: str
    choices: [offered, begun, found]
    required: true
  uri:
    description: How libvirt is reached on its host.
    type: str
    default: qemu:///system
  testbed:
    description: The testbed, whose name all that is made for it bears.
    type: str
    required: true
  folder:
    description: Folder of its disks on the libvirt host.
    type: path
    required: true
  network:
    description: A network of libvirt's, or a bridge of the libvirt host.
    type: str
    default: default
  accelerator:
    description: What runs the machines, C(kvm) or C(tcg). Empty for KVM where libvirt has it.
    type: str
    default: ""
  hosts:
    description: By host C(vcpus), C(memory) in MiB, C(disk) in GB, and perhaps C(cpus), C(device), C(address) and C(gateway).
    type: dict
    default: {}
  patience:
    description: With V(begun), after so many seconds a machine without an address is given up.
    type: float
    default: 600
  holder:
    description: The process of ansible-playbook, as M(strata_ledger) tells it. The module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Reads all the same, and waits for nobody.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Ask whether a machine can be had
  strata_libvirt:
    state: offered
    testbed: lab-1
    folder: /var/lib/strata-libvirt/testbeds/lab-1
    hosts: {vm1: {vcpus: 2, memory: 2048, disk: 8, cpus: [2, 3]}}
"""

RETURN = r"""
offers:
  description: By host what it is called, its CPUs, and its memory in bytes.
  returned: O(state=offered)
  type: dict
machines:
  description: >-
    With V(offered), by host C(there), C(xml) of its domain, C(mac) of its card, and C(device) with C(vendor_id) and
    C(product_id) where one is passed through. With V(begun), C(instance) and C(address).
  returned: O(state=offered) and O(state=begun)
  type: dict
found:
  description: Names by kind.
  returned: O(state=found)
  type: dict
progress:
  description: A line for people.
  returned: O(state=offered)
  type: list
  elements: str
"""

from functools import partial
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.providers.libvirt import api, begun, domain, offer, seen
from ansible.module_utils.strata.trial import termination

MIB = 2**20
TELLS = {
    "kvm": "KVM runs the machines",
    "tcg": "QEMU interprets the machines: there is no verdict about performance",
}


def main() -> None:
    states = {"offered": offered, "begun": has_begun, "found": found}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(states), "required": True},
            "uri": {"type": "str", "default": "qemu:///system"},
            "testbed": {"type": "str", "required": True},
            "folder": {"type": "path", "required": True},
            "network": {"type": "str", "default": "default"},
            "accelerator": {"type": "str", "default": ""},
            "hosts": {"type": "dict", "default": {}},
            "patience": {"type": "float", "default": 600},
            "holder": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    given = {**module.params, "check": module.check_mode}
    termination.ends_with(given["holder"])
    with api.connected(module, given["uri"]) as connection:
        said = states[given["state"]](connection, given)
    module.exit_json(changed=False, **said)


def asked(given: dict[str, Any]) -> dict[str, domain.Asked]:
    """What each host is to be."""
    return {
        host: domain.Asked(**{**one, "cpus": tuple(one.get("cpus", ()))})
        for host, one in given["hosts"].items()
    }


def look(connection: Any, given: dict[str, Any]) -> offer.Offer:
    """What is asked of what is there. Raises Refused."""
    there = seen.look(connection)
    place = domain.Place(
        given["testbed"],
        given["folder"],
        offer.choose(given["accelerator"], there.accelerators),
        given["network"],
        there.networks[given["network"]].link if given["network"] in there.networks else "",
    )
    return offer.Offer(there, place, asked(given))


def offered(connection: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What each machine would be, or is. Raises Refused."""
    wanted = look(connection, given)
    wanted.check()
    return {
        "offers": {
            host: {
                "what": {"domain": domain.name(given["testbed"], host)},
                "cpu_ids": list(range(one.vcpus)),
                "memory_total": one.memory * MIB,
            }
            for host, one in wanted.asked.items()
        },
        "machines": {host: _machine(wanted, host) for host in wanted.asked},
        "progress": [TELLS[wanted.place.accelerator]],
    }


def _machine(wanted: offer.Offer, host: str) -> dict[str, Any]:
    device = wanted.asked[host].device
    ids = wanted.seen.devices[device].ids.split(":") if device else []
    return {
        "there": host in wanted.there,
        "xml": domain.definition(wanted.place, host, wanted.asked[host]),
        "mac": domain.mac(wanted.place.testbed, host),
        "device": dict(zip(("vendor_id", "product_id"), ids, strict=False)),
    }


def has_begun(connection: Any, given: dict[str, Any]) -> dict[str, Any]:
    """How each machine is reached. Raises Refused."""
    wanted = look(connection, given)
    looks = partial(begun.look, connection, wanted.place, wanted.asked)
    there = (
        looks()
        if given["check"]
        else begun.wait(looks, wanted.place, list(wanted.asked), given["patience"])
    )
    return {"machines": {host: vars(one) for host, one in there.items()}}


def found(connection: Any, given: dict[str, Any]) -> dict[str, Any]:
    """All that the testbed has there."""
    testbed, folder = given["testbed"], Path(given["folder"])
    pools = [one.name() for one in connection.listAllStoragePools()]
    kinds = {
        "domains": [one.name for one in seen.domains(connection) if one.is_of(testbed)],
        "pools": [one for one in pools if one == domain.name(testbed)],
        "folders": [str(folder)] if folder.exists() else [],
    }
    there = {kind: sorted(names) for kind, names in kinds.items() if names}
    return {"found": there}


if __name__ == "__main__":
    main()
