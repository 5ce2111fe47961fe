#!/usr/bin/python
"""Have the job that holds the nodes of a testbed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: strata_slurm_job
short_description: Have the job of a Slurm site that holds the nodes of a testbed
description:
  - One job of whole nodes, which does nothing but hold them. It is found by its name, whoever noted it where.
  - Calls C(sbatch), C(squeue), C(scontrol), C(sinfo) and C(scancel), as every user of the site does.
options:
  login:
    description: What C(ssh) takes for a login node of the site. Empty where this machine is one.
    type: str
    default: ""
  login_arguments:
    description: Further arguments of that C(ssh).
    type: list
    elements: str
    default: []
  names:
    description: Names of jobs. The first is that of the one which is made.
    type: list
    elements: str
    required: true
  hosts:
    description: The hosts that its nodes are, in this order.
    type: list
    elements: str
    default: []
  time:
    description: How long it may last.
    type: str
    default: 1h
  partition:
    description: The partition. Empty for the site's default.
    type: str
    default: ""
  account:
    description: Who is charged. Empty for the default of the user.
    type: str
    default: ""
  constraint:
    description: Features that the nodes must have.
    type: str
    default: ""
  options:
    description: Further arguments of C(sbatch).
    type: list
    elements: str
    default: []
  job:
    description: The number of a job that runs already, and is neither made nor ended. 0 for none.
    type: int
    default: 0
  state_dir:
    description: Strata's folder on the nodes, which goes with the job.
    type: path
  become:
    description: Whether modules become root on the nodes, so that what is theirs goes as root, too.
    type: bool
    default: false
  patience:
    description: After so many seconds a job that has not begun, or has not ended, is waited for no more.
    type: float
    default: 3600
  state:
    description: V(offered) asks what could be had. V(present) has it. V(absent) ends it. V(found) only looks.
    type: str
    choices: [offered, present, absent, found]
    default: present
  holder:
    description: The process of ansible-playbook, as M(strata_ledger) tells it. The module ends with it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Submits and ends nothing.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
"""

EXAMPLES = r"""
- name: Have two nodes for two hours
  strata_slurm_job:
    names: [strata-mine]
    hosts: [first, second]
    time: 2h
"""

RETURN = r"""
offers:
  description: By host what it would be.
  returned: O(state=offered)
  type: dict
made:
  description: By host the C(job) and its C(node); nothing before the job is there.
  returned: O(state=present)
  type: dict
found:
  description: The jobs that have not ended, with their states and nodes, by kind.
  returned: O(state=found)
  type: dict
progress:
  description: A line for people.
  returned: O(state=present) and O(state=offered)
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.strata import units
from ansible.module_utils.strata.errors import failing
from ansible.module_utils.strata.providers.slurm import job
from ansible.module_utils.strata.providers.slurm.site import Site
from ansible.module_utils.strata.trial import termination


def main() -> None:
    text = {"type": "str", "default": ""}
    texts = {"type": "list", "elements": "str", "default": []}
    states = {"offered": offered, "present": present, "absent": absent, "found": found}
    module = AnsibleModule(
        argument_spec={
            "login": text,
            "login_arguments": texts,
            "names": {"type": "list", "elements": "str", "required": True},
            "hosts": texts,
            "time": {"type": "str", "default": "1h"},
            "partition": text,
            "account": text,
            "constraint": text,
            "options": texts,
            "job": {"type": "int", "default": 0},
            "state_dir": {"type": "path"},
            "become": {"type": "bool", "default": False},
            "patience": {"type": "float", "default": 3600},
            "holder": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": list(states), "default": "present"},
        },
        required_if=[("state", "present", ["state_dir"])],
        supports_check_mode=True,
    )
    given = module.params
    termination.ends_with(given["holder"])
    with failing(module):
        site = Site(given["login"], tuple(given["login_arguments"]))
        said = states[given["state"]](site, given, module.check_mode)
    module.exit_json(**{"changed": False, **said})


def asked(given: dict[str, Any]) -> job.Asked:
    """The allocation. Raises Refused."""
    return job.Asked(
        given["names"][0],
        len(given["hosts"]),
        job.minutes(units.seconds(given["time"])),
        given["partition"],
        given["account"],
        given["constraint"],
        tuple(given["options"]),
        given["job"],
    )


def offered(site: Site, given: dict[str, Any], _check: bool) -> dict[str, Any]:
    """By host what it would be. Raises Refused."""
    wanted = asked(given)
    cpus, when = job.offer(site, wanted)
    known = {"cpu_ids": list(range(cpus))} if cpus else {}
    offers = {host: {"what": {"job": wanted.name}, **known} for host in given["hosts"]}
    return {"offers": offers, "progress": [f"{len(offers)} nodes of the Slurm site: {when}"]}


def present(site: Site, given: dict[str, Any], check: bool) -> dict[str, Any]:
    """By host its job and node, once the job runs. Raises Refused."""
    wanted = asked(given)
    there = job.there(site, wanted)
    if check and (not there or there.state != job.RUNNING):
        return {"changed": not there, "made": {}, "progress": []}
    keeper = job.keeper(Path(given["state_dir"]), given["become"])
    number = there.id if there else job.submit(site, wanted, keeper)
    running = job.wait(site, wanted, number, given["patience"])
    nodes = job.hosts(site, running)
    job.check_size(running, nodes, wanted)
    kept = bool(wanted.given) and not check and job.keep(site, running, wanted, keeper)
    made = {
        host: {"job": number, "node": node}
        for host, node in zip(given["hosts"], nodes, strict=True)
    }
    lines = [] if there else [f"Slurm job {number} holds {', '.join(nodes)}"]
    return {"changed": not there or kept, "made": made, "progress": lines}


def absent(site: Site, given: dict[str, Any], check: bool) -> dict[str, Any]:
    """Whether there was one. Raises Refused."""
    if check:
        return {"changed": bool(job.found(site, given["names"]))}
    return {"changed": job.cancel(site, given["names"], given["patience"])}


def found(site: Site, given: dict[str, Any], _check: bool) -> dict[str, Any]:
    """What has not ended. Raises Refused."""
    jobs = [f"{one.id} {one.state} {one.nodes}" for one in job.found(site, given["names"])]
    return {"found": {"jobs": jobs} if jobs else {}}


if __name__ == "__main__":
    main()
