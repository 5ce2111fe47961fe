"""Nodes of a cluster as hosts: what can be had of them, and the pods that stand on each."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import units
from ...errors import Refused
from .site import TESTBED, Site, missing

LOOK_S = 0.5
# The networks of programs there: where pods are held to themselves, that of pods alone.
NETWORKS = {False: ["cluster"], True: ["host", "cluster"]}
# What a container waits for that does not come by waiting.
HOPELESS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
}
ENGINES = {"containerd": "kubernetes.containerd"}
VERSION = re.compile(r"\d+\.\d+\.\d+\S*")


@dataclass(frozen=True)
class Asked:
    """Hosts by the names of nodes, what they are for, and whether agents see all of them."""

    hosts: Sequence[str]
    testbed: str
    namespace: str
    privileged: bool


def offer(site: Site, asked: Asked) -> dict[str, dict[str, Any]]:
    """By host what it is. Raises Refused where it, or a right to use it, cannot be had."""
    lacking = site.lacks(asked.namespace)
    if lacking:
        raise Refused(
            "the account of the kubeconfig may do in the cluster what is asked of it",
            example="one that may make namespaces, and is bound to the role admin there",
            given=f"it may not {missing(lacking, asked.namespace)}",
            then="ask for these rights, or take another context: cluster_context",
        )
    check_namespace(site, asked)
    nodes = site.nodes()
    _check_nodes(nodes, asked.hosts)
    return {
        host: {
            "what": {"namespace": asked.namespace, "testbed": asked.testbed},
            "cpu_ids": list(range(int(number(nodes[host].status.capacity["cpu"])))),
            "memory_total": int(number(nodes[host].status.capacity["memory"])),
            "placement": {"agent": "privileged" if asked.privileged else "restricted"},
            "brings": ["kubernetes"],
            "networks": NETWORKS[asked.privileged],
        }
        for host in asked.hosts
    }


def check_namespace(site: Site, asked: Asked) -> None:
    """Raises Refused where the namespace is there, and not this testbed's."""
    there = site.namespace(asked.namespace)
    whose = (there.metadata.labels or {}).get(TESTBED) if there else asked.testbed
    if whose != asked.testbed:
        raise Refused(
            "the namespace is a new one, or this testbed's already: all that is in it goes with it",
            example="cluster_namespace: strata-mine",
            given=f"{asked.namespace}, which is {f'of the testbed {whose}' if whose else 'there'}",
            then="give the name of a namespace that is not there: cluster_namespace",
        )


def _check_nodes(nodes: Mapping[str, Any], hosts: Sequence[str]) -> None:
    unknown = [host for host in hosts if host not in nodes]
    if unknown:
        raise Refused(
            "hosts of a cluster that exists are called as its nodes are",
            given=f"{', '.join(unknown)}; its nodes are {', '.join(sorted(nodes))}",
            then="name hosts of the inventory as kubectl get nodes does",
        )
    unfit = {host: why for host in hosts if (why := _why_not(nodes[host]))}
    if unfit:
        raise Refused(
            "a node takes pods now",
            given="; ".join(f"{host} {why}" for host, why in unfit.items()),
            then="see kubectl describe node, or leave the host out",
        )


def _why_not(node: Any) -> str:
    ready = next((one for one in node.status.conditions or [] if one.type == "Ready"), None)
    if ready is None or ready.status != "True":
        return f"is not ready: {ready.message if ready else 'it has not said'}"
    return "is closed to new pods (cordoned)" if node.spec.unschedulable else ""


def number(quantity: str) -> float:
    """A number as the cluster writes it: `7900m`, `16Gi`. Raises Refused."""
    if quantity.endswith("m"):
        return float(quantity[:-1]) / 1000
    if quantity[-1].isdigit():
        return float(quantity)
    return float(units.size(quantity.removesuffix("i")))


def describe(site: Site, asked: Asked) -> dict[str, dict[str, Any]]:
    """By node what its agent is told: as strata.host.agent reads it. Raises Refused."""
    nodes = site.nodes()
    _check_nodes(nodes, asked.hosts)
    return {host: _told(nodes[host], asked.privileged) for host in asked.hosts}


def _told(node: Any, whole: bool) -> dict[str, Any]:
    info, addresses = node.status.node_info, node.status.addresses or []
    engine, _, version = info.container_runtime_version.partition("://")
    key = ENGINES.get(engine, "kubernetes.engine")
    return {
        "boot": info.boot_id,
        "whole": whole,
        "networks": NETWORKS[whole],
        "address": next((one.address for one in addresses if one.type == "InternalIP"), ""),
        "told": {
            "os.name": info.os_image,
            "kubernetes.kubelet": info.kubelet_version.removeprefix("v"),
            key: version if key != "kubernetes.engine" else f"{engine} {version}",
        },
    }


def standing(
    site: Site, asked: Asked, sets: Sequence[str], patience_s: float
) -> dict[str, dict[str, str]]:
    """By node the pod of the last of these daemon sets, and its `uid`, once all of them run.

    Raises Refused with the cluster's own words where one will not, or not in time.
    """
    deadline = time.monotonic() + patience_s
    while True:
        late = [(name, *_waits(site, asked, name)) for name in sets]
        late = [one for one in late if one[1]]
        if not late:
            return running(site, asked, sets[-1])
        hopeless = next((one for one in late if one[2]), None)
        if hopeless or time.monotonic() > deadline:
            name, why, _ = hopeless or late[0]
            raise Refused(
                f"a pod of {name} runs on each host",
                given=why,
                then=f"see kubectl --namespace {asked.namespace} describe pods; "
                "what was made goes with playbooks/teardown.yml",
            )
        time.sleep(LOOK_S)


def running(site: Site, asked: Asked, name: str) -> dict[str, dict[str, str]]:
    """By node the pod of a daemon set that runs there, and its `uid`."""
    return {
        pod.spec.node_name: {"pod": pod.metadata.name, "uid": pod.metadata.uid}
        for pod in _pods(site, asked, name)
        if is_ready(pod)
    }


def _pods(site: Site, asked: Asked, name: str) -> list[Any]:
    pods = site.pods(asked.namespace, f"strata.set={name}")
    return [pod for pod in pods if not pod.metadata.deletion_timestamp]


def is_ready(pod: Any) -> bool:
    told = pod.status.container_statuses or []
    return bool(told) and all(one.state.running for one in told)


def _waits(site: Site, asked: Asked, name: str) -> tuple[str, bool]:
    """Why not all pods of a daemon set run, '' where they do, and whether waiting is of no use."""
    pods = _pods(site, asked, name)
    for pod in pods:
        for one in pod.status.container_statuses or []:
            waiting = one.state.waiting
            if waiting and waiting.reason in HOPELESS:
                return f"{pod.spec.node_name}: {waiting.reason}: {waiting.message}", True
    there = {pod.spec.node_name for pod in pods if is_ready(pod)}
    absent = [host for host in asked.hosts if host not in there]
    if not absent:
        rolled = site.is_rolled_out(asked.namespace, name)
        return "" if rolled else "pods of before are still there", False
    # A pod that the cluster does not let in is never made: it says so of the set.
    made = {pod.spec.node_name for pod in pods}
    refused = [] if made else [w for w in site.warnings(asked.namespace, name) if "forbid" in w]
    if refused:
        return refused[0], True
    return f"on {', '.join(absent)} it does not run yet", False
