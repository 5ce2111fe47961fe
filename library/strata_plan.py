"""Documentation of the action plugin `strata_plan`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_plan
short_description: Check an experiment against the inventory and make its plan
description:
  - Reads the experiment, refuses what is wrong with it, expands, places, shuffles and prices its slots.
  - Finds the run to resume. Touches no host and writes nothing.
  - A host that a provider makes has the same place in the plan before and after it is there.
    Where looking at it would change the plan, it is refused, with both plans.
options:
  experiment:
    description: The experiment's file.
    type: path
    required: true
  slice:
    description: A named small part of it.
    type: str
    default: ""
  results:
    description: Folder of all results.
    type: path
    required: true
  run:
    description: Name of the results folder; empty to resume the newest unfinished run of this plan, or to begin one.
    type: str
    default: ""
  cache:
    description: Folder on the controller for downloads, images and datasets.
    type: path
    required: true
  attempts:
    description: How many times a trial is tried in all.
    type: int
    default: 1
  dataset:
    description: Folder with real data instead of the experiment's dataset, from the current directory on.
    type: str
    default: ""
  image:
    description: What decides the content of the images beside their families.
    type: dict
    required: true
  testbed:
    description: The names of the hosts that take part.
    type: list
    elements: str
    required: true
  controller:
    description: What M(strata_host) answered of the controller itself. Needed where O(hosts) is given.
    type: dict
  hosts:
    description: What M(strata_host) answered, by host. Without it the plan is made on paper.
    type: dict
  offers:
    description: What providers offer, by host, C(what) it will be there, and of what M(strata_host) answers C(cpu_ids) and C(memory_total).
    type: dict
    default: {}
  instances:
    description: What tells each host that a provider has made from another one of its name.
    type: dict
    default: {}
attributes:
  check_mode:
    description: It never changes anything.
    support: full
  diff_mode:
    description: It never changes anything.
    support: none
"""

EXAMPLES = r"""
- name: Make the plan on paper
  strata_plan:
    experiment: experiments/quick.yml
    results: results
    cache: "{{ strata_cache }}"
    testbed: [node1, node2]
    image: "{{ strata_image }}"
"""

RETURN = r"""
plan:
  description: Slots, estimate, name of the run, what was left out.
  returned: success
  type: dict
controller:
  description: The ansible-playbook process, as M(strata_lease) takes it.
  returned: success
  type: dict
controller_apart:
  description: Whether the controller is no host of the testbed, and has a lease of its own.
  returned: success
  type: bool
stages:
  description: The stages of site.yml that this command asks for.
  returned: success
  type: list
  elements: str
testbed:
  description: Names the testbed of the inventory; what a provider makes for it can bear that name.
  returned: success
  type: str
providers:
  description: The hosts of the testbed that each provider makes, in the inventory's order.
  returned: success
  type: dict
offers:
  description: O(offers), with the C(provider) of each host that has one.
  returned: success
  type: dict
break_leases:
  description: Hosts whose lease is of a dead process on this controller.
  returned: success
  type: list
  elements: str
"""
