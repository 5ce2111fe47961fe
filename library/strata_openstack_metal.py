#!/usr/bin/python
"""Ask for bare metal, bring it to where it answers, or give it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_openstack_metal
short_description: Ask Ironic for bare metal, bring it to where it answers, or give it back
description:
  - Enrols a node, manages it, inspects it and compares what was found, erases it where that is asked, gives it to the
    testbed by an allocation and deploys it. All machines go side by side, each from where it is.
  - The host key is the controller's to make. The machine is told it on its config drive, so it is known before the first connection.
options:
  cloud:
    description: Its name in clouds.yaml.
    type: str
    required: true
  testbed:
    description: The testbed, whose name everything that is made for it bears.
    type: str
    required: true
  state:
    description:
      - V(offered) makes nothing, and refuses what cannot be had.
      - V(present) goes on until each machine answers with its host key.
      - V(absent) gives back what bears the testbed's name, or is named in O(names). Nodes that were enrolled for it are forgotten.
    type: str
    choices: [offered, present, absent]
    default: present
  machines:
    description: By host what it is to be, C(resource_class), C(node), C(clean), C(deploy), C(address) and C(gateway).
    type: dict
    default: {}
  secrets:
    description: By host those entries of the node's C(driver_info) that nobody may read.
    type: dict
    default: {}
  names:
    description: With V(absent), allocations that may be there.
    type: list
    elements: str
    default: []
  images:
    description: Images of the cloud by name, C(kernel) and C(ramdisk) of those that run from their memory, C(disk) of the others.
    type: dict
    default: {}
  arguments:
    description: Words for the kernel.
    type: str
    default: ""
  key:
    description: The public key that is let in.
    type: str
    default: ""
  folder:
    description: Folder of the host keys, C(host_key-NAME) each, and of C(known_hosts_metal), in which they are pinned.
    type: path
  patience:
    description: After so many seconds a machine that does not answer, or cannot be given back, is given up.
    type: float
    default: 600
  holder:
    description: The process of ansible-playbook, as M(strata_ledger) tells it. The module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Asks for nothing, and tells of the machines that are there with their keys pinned.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Give the machines back
  strata_openstack_metal:
    cloud: mycloud
    testbed: lab-1
    state: absent
"""

RETURN = r"""
offers:
  description: With V(offered), by host its name, and its CPUs and memory in bytes where the inventory says them.
  returned: success
  type: dict
active:
  description: With V(offered), the hosts that are there.
  returned: success
  type: list
  elements: str
hosts:
  description: With V(present), by host its instance and address, and when it was C(asked) for and C(active).
  returned: success
  type: dict
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.providers.guest import keys
from ansible.module_utils.strata.providers.openstack import free, metal
from ansible.module_utils.strata.providers.openstack.api import connect, telling
from ansible.module_utils.strata.providers.openstack.found import found, name
from ansible.module_utils.strata.trial import termination


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "testbed": {"type": "str", "required": True},
            "state": {
                "type": "str",
                "choices": ["offered", "present", "absent"],
                "default": "present",
            },
            "machines": {"type": "dict", "default": {}},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "names": {"type": "list", "elements": "str", "default": []},
            "images": {"type": "dict", "default": {}},
            "arguments": {"type": "str", "default": ""},
            "key": {"type": "str", "default": "", "no_log": False},
            "folder": {"type": "path"},
            "patience": {"type": "float", "default": 600},
            "holder": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    act = {"offered": _offered, "present": _present, "absent": _absent}[module.params["state"]]
    termination.ends_with(module.params["holder"])
    with telling(module):
        said = act(module.params, module.check_mode)
    module.exit_json(**said)


def _machines(given: dict[str, Any]) -> list[metal.Machine]:
    made = []
    for host, asked in given["machines"].items():
        # A key with nothing after it is one that was left out.
        node = {key: value for key, value in asked["node"].items() if value is not None}
        if node.get("driver_info"):
            node["driver_info"] = {**node["driver_info"], **given["secrets"].get(host, {})}
        made.append(metal.Machine(host, name(given["testbed"], host), **{**asked, "node": node}))
    return made


def _offered(given: dict[str, Any], _: bool) -> dict[str, Any]:
    cloud, machines = connect(given["cloud"]), _machines(given)
    offers = free.offers(cloud, machines)
    active = _there([metal.Way(cloud, machine, given["testbed"]) for machine in machines])
    return {"changed": False, "offers": offers, "active": [way.machine.host for way in active]}


def _there(ways: list[metal.Way]) -> list[metal.Way]:
    """Those whose machine runs and is the testbed's."""
    for way in ways:
        way.look()
    return [
        way for way in ways if way.node and way.allocation and way.node.provision_state == "active"
    ]


def _present(given: dict[str, Any], check: bool) -> dict[str, Any]:
    cloud = connect(given["cloud"])
    ways = [metal.Way(cloud, machine, given["testbed"]) for machine in _machines(given)]
    folder = Path(given["folder"])
    pinned = folder / "known_hosts_metal"
    changed = False
    if check:
        ways = [way for way in _there(ways) if way.allocation.id in keys.known(pinned)]
    else:
        images = {
            kind: cloud.image.find_image(image, ignore_missing=False).id
            for kind, image in given["images"].items()
        }
        starts = {way.machine.host: _start(given, folder, way.machine, images) for way in ways}
        metal.bring(ways, starts, keys.answered, given["patience"])
        here = [
            keys.Guest(way.allocation.id, way.machine.ip, starts[way.machine.host].host_public)
            for way in ways
        ]
        changed = keys.write(pinned, here) or any(way.changed for way in ways)
    hosts = {
        way.machine.host: {
            **{"instance": way.allocation.id, "address": way.machine.ip},
            **metal.told(cloud, way),
        }
        for way in ways
    }
    return {"changed": changed, "hosts": hosts}


def _start(
    given: dict[str, Any], folder: Path, machine: metal.Machine, images: dict[str, str]
) -> metal.Start:
    private, public = keys.own(folder, machine.host)
    return metal.Start(images, given["arguments"], given["key"], private, public)


def _absent(given: dict[str, Any], check: bool) -> dict[str, Any]:
    cloud = connect(given["cloud"])
    if not cloud.has_service("baremetal"):
        return {"changed": False}
    there = found(cloud, given["testbed"])
    enrolled = set(there.get("nodes", {}).values())
    names = enrolled | set(there.get("allocations", {}).values()) | set(given["names"])
    ways = [
        metal.Way(
            cloud,
            metal.Machine(one, one, "", {"name": one} if one in enrolled else {}),
            given["testbed"],
        )
        for one in sorted(names)
    ]
    if check:
        return {"changed": bool(enrolled or there.get("allocations"))}
    metal.take(ways, given["patience"])
    return {"changed": any(way.changed for way in ways)}


if __name__ == "__main__":
    main()
