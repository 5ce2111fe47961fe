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
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from strata.providers.remote import SHELL, ended

from controller.connection import Answer, CommandConnection


class Connection(CommandConnection):
    """One kubectl for each command."""

    transport = "strata_kubectl"

    def run(self, command: str, **feed: Any) -> Answer:
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
