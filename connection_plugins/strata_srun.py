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

import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase
from strata.providers.slurm.site import Site


class Connection(ConnectionBase):
    """Stateless: a step for each command."""

    transport = "strata_srun"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Status, standard output and standard error. A job that is gone is an unreachable host."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._step(cmd, input=in_data or b"")

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        source = Path(in_path)
        if not source.is_file():
            raise AnsibleFileNotFound(f"there is no file {in_path}")
        with source.open("rb") as file:
            self._copied(self._step(f"cat >{self._shell.quote(out_path)}", stdin=file))

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        said = self._step(f"cat {self._shell.quote(in_path)}", stdin=subprocess.DEVNULL)
        self._copied(said)
        Path(out_path).write_bytes(said[1])

    def reset(self) -> None:
        """Nothing is kept between commands."""

    def close(self) -> None:
        self._connected = False

    def _step(self, command: str, **feed: Any) -> tuple[int, bytes, bytes]:
        given: dict[str, Any] = self.get_option("srun")
        site = Site(given.get("login") or "", tuple(given.get("arguments") or ()))
        status, stdout, stderr = site.step(int(given["job"]), given["node"], command, **feed)
        if status is None:
            raise AnsibleConnectionFailure(stderr.decode(errors="replace"))
        return status, stdout, stderr

    def _copied(self, said: tuple[int, bytes, bytes]) -> None:
        if said[0] != 0:
            raise AnsibleConnectionFailure(said[2].decode(errors="replace"))
