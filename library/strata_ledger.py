"""Documentation of the action plugin `strata_ledger`, which does all of the work on the controller."""

DOCUMENTATION = r"""
module: strata_ledger
short_description: Note what providers are about to make, and what came of it
description:
  - Keeps a file for each testbed in the controller's cache. A line is on the disk before this returns.
  - The testbed is that of the inventory, whichever of its hosts a limit leaves.
options:
  cache:
    description: Folder on the controller for downloads, images, datasets and ledgers.
    type: path
    required: true
  state:
    description:
      - V(read) only reads. V(making) notes what is about to be made, and refuses while another run makes hosts.
      - V(made) notes what is there now, and names each host that is another instance than before.
      - V(gone) removes the ledger, once nothing of its hosts is there any more.
    type: str
    choices: [read, making, made, gone]
    default: read
  hosts:
    description:
      - With V(making), C(provider) and C(what) by host. With V(made), C(instance) and C(connection).
    type: dict
attributes:
  check_mode:
    description: Reads, and writes nothing.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Note what is about to be made
  strata_ledger:
    state: making
    cache: "{{ strata_cache }}"
    hosts: {node1: {provider: rehearsal, what: {lab: strata}}}
"""

RETURN = r"""
testbed:
  description: Names the testbed; what a provider makes for it can bear that name.
  returned: success
  type: str
hosts:
  description: "By host, C(provider), C(what) it is there, and once it was made C(instance) and C(connection)."
  returned: success
  type: dict
providers:
  description: The hosts that each provider makes, as the inventory says.
  returned: success
  type: dict
progress:
  description: A line for each host that is another instance than before.
  returned: success
  type: list
  elements: str
"""
