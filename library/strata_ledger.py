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
      - V(reached) notes that hosts have let us in, and V(leaving) that all of them are about to be taken away.
      - V(gone) removes the ledger, once nothing of its hosts is there any more, and tells the runs that were on them.
    type: str
    choices: [read, making, made, reached, leaving, gone]
    default: read
  hosts:
    description:
      - With V(making), C(provider) and C(what) by host. With V(made), C(instance) and C(connection), and where the provider
        knows when it was C(asked) for the host, and when that was C(active).
    type: dict
  waited:
    description: With V(reached), by host for how many seconds it was waited for; the slowest has just let us in.
    type: dict
  results:
    description: With V(gone), the folder of results, in which runs are told.
    type: path
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
controller:
  description: The process of ansible-playbook, with which ends what it waits for.
  returned: success
  type: dict
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
lives:
  description: Of each instance C(host), C(provider), C(instance), and the moments of its life as far as they are known.
  returned: success
  type: list
  elements: dict
progress:
  description: A line for each host that is another instance than before, has let us in for the first time, or is gone.
  returned: success
  type: list
  elements: str
"""
