#!/usr/bin/python
"""Shape the links of a rehearsal lab."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_rehearsal_links
short_description: Shape the links of a rehearsal lab, and measure them
description:
  - Limits the rate in both directions of each node's link; delays and drops what each node sends.
  - Measures what it has set, and fails when a link does not do what was asked.
  - Changes and measures nothing when every link is as asked.
options:
  nodes:
    description: The running nodes.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      pid:
        description: Number of its first process.
        type: int
        required: true
      address:
        description: Its address.
        type: str
        required: true
  rate:
    description: Bits per second; 0 for no limit.
    type: float
    default: 0
  delay:
    description: Seconds that each packet which a node sends is delayed.
    type: float
    default: 0
  loss:
    description: Fraction of a node's packets that is lost.
    type: float
    default: 0
attributes:
  check_mode:
    description: Compares, and changes and measures nothing.
    support: full
  diff_mode:
    description: Shows the queues before and after.
    support: full
"""

EXAMPLES = r"""
- name: Shape the links
  strata_rehearsal_links:
    nodes: [{name: node1, pid: 4711, address: 10.201.7.11}]
    rate: 1000000000
"""

RETURN = r"""
readings:
  description: What was measured and what was asked, one for each direction of each link.
  returned: success
  type: list
  elements: dict
progress:
  description: The readings for people.
  returned: success
  type: list
  elements: str
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata.errors import Refused, failing
from ansible.module_utils.strata.providers.rehearsal import links
from ansible.module_utils.strata.providers.rehearsal.lab import Shape

NODE = {
    "name": {"type": "str", "required": True},
    "pid": {"type": "int", "required": True},
    "address": {"type": "str", "required": True},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "dict", "required": True, "options": NODE},
            "rate": {"type": "float", "default": 0},
            "delay": {"type": "float", "default": 0},
            "loss": {"type": "float", "default": 0},
        },
        supports_check_mode=True,
    )
    with failing(module):
        change(module)


def change(module: AnsibleModule) -> None:
    """Shape what is not as asked, and measure; leaves through exit_json. Raises Refused."""
    given = module.params
    nodes = [links.Node(**node) for node in given["nodes"]]
    shape = Shape(given["rate"], given["delay"], given["loss"])
    all_ends = [(node, end) for node in nodes for end in links.ends(node)]
    before = {f"{node.name} {end.interface}": links.present(end) for node, end in all_ends}
    after = {
        f"{node.name} {end.interface}": links.wanted(shape, end.is_node) for node, end in all_ends
    }
    changed = not all(links.same(before[key], after[key]) for key in after)
    readings: list[links.Reading] = []
    if changed and not module.check_mode:
        readings = apply(nodes, [end for _, end in all_ends], shape)
    module.exit_json(
        changed=changed,
        readings=[asdict(reading) for reading in readings],
        progress=[reading.line() for reading in readings],
        diff={"before": before, "after": after if changed else before},
    )


def apply(nodes: list[links.Node], ends: list[links.End], shape: Shape) -> list[links.Reading]:
    """Shape and measure. A link that does not do what was asked is left without any shape, so that
    the next run does not take it for good. Raises Refused.
    """
    try:
        return shape_and_measure(nodes, ends, shape)
    except Refused:
        for end in ends:
            links.shape_end(end, [])
        raise


def shape_and_measure(
    nodes: list[links.Node], ends: list[links.End], shape: Shape
) -> list[links.Reading]:
    """The rate first and by itself: with delay and loss in it, TCP does not reach it."""
    plain = Shape(shape.rate, 0, 0)
    for end in ends:
        links.shape_end(end, links.wanted(plain, end.is_node))
    readings = list(links.measure_rate(nodes, shape)) if shape.rate else []
    links.check(readings)
    if shape != plain:
        for end in ends:
            links.shape_end(end, links.wanted(shape, end.is_node))
    readings += links.measure_delay(nodes, shape) if shape.delay else []
    readings += links.measure_loss(nodes, shape) if shape.loss else []
    links.check(readings)
    return readings


if __name__ == "__main__":
    main()
