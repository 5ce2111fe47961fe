"""A node of a cluster as its host knows it, without the cluster's client."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from ...fields import Field
from ...host import agent
from ...host.facts import has, read_text

# How a node's modules reach the cluster, written by the role; its context has the node's name.
CONFIG = Path("/etc/kubernetes/trials.conf")
# As the kernel names processes, by 15 letters; those of the control plane, too.
DAEMONS = (
    *("kubelet", "containerd", "containerd-shim", "kube-proxy", "coredns"),
    *("etcd", "kube-apiserver", "kube-controller", "kube-scheduler"),
)
FIELDS = {
    "kubernetes.kubelet": Field("Kubernetes"),
    "kubernetes.containerd": Field("containerd"),
    "kubernetes.engine": Field("engine of the node, which is another"),
    "kubernetes.cpu_manager": Field("who gives pods their CPUs"),
}
# What each is asked with; the version is the first word of its answer that is one.
ASKED = {
    "kubernetes.kubelet": ["kubelet", "--version"],
    "kubernetes.containerd": ["containerd", "--version"],
}
SETTINGS = Path("/var/lib/kubelet/config.yaml")
MANAGER = re.compile(r"^cpuManagerPolicy: *(\S+)", re.MULTILINE)
VERSION = re.compile(r"\bv?\d+\.\d+\.\d+\S*")
ANSWER_S = 10.0


def facts() -> dict[str, Any]:
    """Whether the host is a node; `why_not` is '' when it is or can be made one."""
    if agent.here():
        return {"installed": True, "why_not": ""}
    installed = has("kubelet")
    return {"installed": installed, "why_not": why_not(root=os.geteuid() == 0, apt=has("apt-get"))}


def why_not(*, root: bool, apt: bool) -> str:
    """'' when the host can be a node, else one plain clause."""
    if not root:
        return "a node of a cluster needs root"
    return "" if apt else "this distribution has no apt to install the node's engine with"


def fingerprint(settings: Path = SETTINGS) -> dict[str, Any]:
    """Versions of the node's programs and its policy for CPUs, where the host is a node."""
    if not has("kubelet"):
        return {}
    told = MANAGER.search(read_text(settings) or "")
    versions = {key: version(_said(command)) for key, command in ASKED.items()}
    return {**versions, "kubernetes.cpu_manager": told[1] if told else "none"}


def version(text: str) -> str | None:
    """The version that a program names; None where it names none."""
    match = VERSION.search(text)
    return match[0].lstrip("v") if match else None


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
