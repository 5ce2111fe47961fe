"""Reaches a pod of a Kubernetes cluster by `kubectl exec`: no key, no listener."""

from __future__ import annotations

DOCUMENTATION = r"""
name: strata_kubectl
short_description: Reach a pod of a Kubernetes cluster, and tell its loss from a command's failure
description:
  - Each command is a C(kubectl exec), as the account that the pod's container has.
  - It differs from C(kubernetes.core.kubectl) in that a pod that has gone, or a cluster that does not answer, is an unreachable host.
options:
  pod:
    description: The C(pod) and its C(namespace), the C(kubeconfig) of the cluster and its C(context), which is empty for the current one.
    type: dict
    required: true
    vars:
      - name: ansible_pod
"""

import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase
from strata.providers.remote import SHELL, ended


class Connection(ConnectionBase):
    """Stateless: one kubectl for each command."""

    transport = "strata_kubectl"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Status, standard output and standard error."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._run(cmd, input=in_data or b"")

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        source = Path(in_path)
        if not source.is_file():
            raise AnsibleFileNotFound(f"there is no file {in_path}")
        with source.open("rb") as file:
            self._copied(self._run(f"cat >{self._shell.quote(out_path)}", stdin=file))

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        said = self._run(f"cat {self._shell.quote(in_path)}", stdin=subprocess.DEVNULL)
        self._copied(said)
        Path(out_path).write_bytes(said[1])

    def reset(self) -> None:
        """Nothing is kept between commands."""

    def close(self) -> None:
        self._connected = False

    def _run(self, command: str, **feed: Any) -> tuple[int, bytes, bytes]:
        given: dict[str, Any] = self.get_option("pod")
        named = ("kubeconfig", "context", "namespace")
        where = [f"--{name}={given[name]}" for name in named if given.get(name)]
        asked = ["exec", "--stdin", given["pod"], "--", "/bin/sh", "-c", SHELL, "sh", command]
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            ["kubectl", *where, *asked], capture_output=True, check=False, **feed
        )
        status, stderr = ended(done.stderr)
        if status is None:
            said = stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            raise AnsibleConnectionFailure(f"pod {given['pod']}: {said}")
        return status, done.stdout, stderr

    def _copied(self, said: tuple[int, bytes, bytes]) -> None:
        if said[0] != 0:
            raise AnsibleConnectionFailure(said[2].decode(errors="replace"))
