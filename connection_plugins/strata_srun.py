"""Reaches a node of a Slurm allocation by steps of its job: no key, no root, no listener."""

from __future__ import annotations

DOCUMENTATION = r"""
name: strata_srun
short_description: Reach a node of a Slurm allocation by a step of its job
description:
  - Each command is a step (C(srun --overlap)) of a job that runs already, as the account that asked for it.
    What it starts is so within the allocation, and ends with it.
  - C(srun) is called on this machine, or by SSH on a login node of the site.
options:
  srun:
    description: >-
      The C(job) and its C(node); what C(ssh) takes for the C(login) node, which is empty for this machine, and C(arguments) of that.
    type: dict
    required: true
    vars:
      - name: ansible_srun
"""

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from strata.providers.slurm.site import Site

from controller.connection import Answer, CommandConnection


class Connection(CommandConnection):
    """A step of the job for each command. A job that is gone is an unreachable host."""

    transport = "strata_srun"

    def run(self, command: str, **feed: Any) -> Answer:
        given: dict[str, Any] = self.get_option("srun")
        site = Site(given.get("login") or "", tuple(given.get("arguments") or ()))
        status, stdout, stderr = site.step(int(given["job"]), given["node"], command, **feed)
        if status is None:
            raise AnsibleConnectionFailure(stderr.decode(errors="replace"))
        return status, stdout, stderr
