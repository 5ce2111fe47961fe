#!/usr/bin/python
"""What a host is and has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_host
short_description: Ask a host for all that a plan needs to know
description:
  - Reads memory, disk, engines, kind of machine and lease in one call, and changes nothing.
options:
  state_dir:
    description: Strata's folder on the host.
    type: path
    required: true
attributes:
  check_mode:
    description: Reads all the same.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
"""

EXAMPLES = r"""
- name: Ask the host
  strata_host:
    state_dir: /var/lib/strata
"""

RETURN = r"""
root: {description: Whether modules run as root here., returned: always, type: bool}
cpu: {description: "By which C(machine) programs are built for it, and the C(flags) of what it can do.", returned: always, type: dict}
cpu_ids: {description: Numbers of the CPUs that may be used., returned: always, type: list, elements: int}
cores: {description: The same by the cores that they are of., returned: always, type: list, elements: list}
numa_nodes: {description: Numbers of the NUMA nodes that have memory., returned: always, type: list, elements: int}
memory_total: {description: Bytes of memory., returned: always, type: int}
memory_available: {description: Bytes that are available., returned: always, type: int}
state_dir:
  description: Whether the folder is C(ours), and if it cannot become so, what is C(refused). Others that were claimed are C(elsewhere).
  returned: always
  type: dict
disk_free: {description: Bytes free where O(state_dir) is., returned: always, type: int}
images: {description: Workload images that are unpacked here., returned: always, type: list, elements: str}
docker: {description: "C(installed), C(running), C(version), C(sdk), and C(why_not), empty when it can be had.", returned: always, type: dict}
apptainer:
  description: >-
    Whether it is C(installed), whether that is the one that was C(built), what is C(missing) of the programs that it calls, and C(why_not),
    empty when it can be had.
  returned: always
  type: dict
kubernetes: {description: "Whether it is C(installed), and C(why_not), empty when the host can be a node.", returned: always, type: dict}
service_manager: {description: "C(systemd), C(sysvinit) or C(none).", returned: always, type: str}
distribution: {description: C(id) and C(version)., returned: always, type: dict}
gpu: {description: "Whether an NVIDIA GPU is C(present), the container C(toolkit), and by which C(ids) a GPU can be asked for.", returned: always, type: dict}
virtualisation: {description: "C(none), C(container), C(kvm), C(qemu-tcg) or another hypervisor.", returned: always, type: str}
lease: {description: The lease in force; empty without one., returned: always, type: dict}
machine: {description: "One value for all names of this host, and for no other host.", returned: always, type: str}
python: {description: Version of Python., returned: always, type: str}
networks: {description: "Those that programs have here, where nobody switches them; nothing elsewhere.", returned: always, type: list, elements: str}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import runtimes
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.host.facts import probe


def main() -> None:
    module = AnsibleModule(
        argument_spec={"state_dir": {"type": "path", "required": True}}, supports_check_mode=True
    )
    state_dir = Path(module.params["state_dir"])
    with failing(module):
        found = {**probe(state_dir), **runtimes.facts()}
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
