"""A network of pods as its cluster has it: told of it, waited for, taken out of it, looked for.

On the controller, by an account that may change everything. All of a stage is one process with one
client: as a task for each object, making clients was most of what a switch took.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kubernetes
import yaml
from kubernetes.dynamic.exceptions import NotFoundError, ResourceNotFoundError

from ...errors import Refused, said
from .cluster import GONE
from .objects import Object, on

WHO = "strata"  # of the fields of objects, for the cluster
PATIENCE_S = 120.0
LOOK_S = 0.2
GRACE_S = 1
KINDS = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
RUNS = "apps/v1"  # objects of this have pods
PODS = {"apiVersion": "v1", "kind": "Pod"}
NODES = {"apiVersion": "v1", "kind": "Node"}
SETS = {"apiVersion": RUNS, "kind": "DaemonSet"}
# What of an object is the cluster's: the rest is what it was told.
OWN = ("managedFields", "resourceVersion", "generation")


@dataclass(frozen=True)
class Network:
    """What a cluster is told of a network of pods."""

    namespace: str  # of its objects; the first of them
    hosts: Sequence[str]  # of the setting, as the cluster calls its nodes
    objects: Sequence[Object]  # in the order in which they are made
    probe: Sequence[Object]  # pods on each host for the proof, in the same namespace
    kinds: str = ""  # file with the definitions of its kinds of objects
    group: str = ""  # of these kinds, whoever told the cluster of them
    notes: Sequence[str] = field(default_factory=list)  # that it makes on nodes, by their names

    def bound(self, told: Object) -> Object:
        """An object whose pods, if it has some, are on the hosts alone.

        A cluster may have nodes beside them, which nobody looks at, and which nobody cleans.
        """
        if told["apiVersion"] != RUNS:
            return told
        pods = told["spec"]["template"]
        spec = {**pods["spec"], "affinity": {"nodeAffinity": on(*self.hosts)}}
        return {**told, "spec": {**told["spec"], "template": {**pods, "spec": spec}}}

    def outside(self) -> list[Object]:
        """What does not go by itself: with the namespace, or with the kind."""
        return [
            one
            for one in self.objects
            if one["metadata"].get("namespace") != self.namespace
            and one["apiVersion"].partition("/")[0] != self.group
        ]


class Cluster:
    """What is asked of it, with objects as they stand in manifests. In check mode it only looks."""

    def __init__(self, kubeconfig: str, folder: Path, *, check: bool = False) -> None:
        self._client = kubernetes.config.new_client_from_config(kubeconfig)
        self._known = kubernetes.dynamic.DynamicClient(self._client, str(folder / "known.json"))
        self._check = check

    def find(self, told: Object) -> Object | None:
        """The object of that kind and name; None without one."""
        where = told["metadata"]
        try:
            found = self._kind(told).get(where["name"], where.get("namespace"), serialize=False)
        except (NotFoundError, ResourceNotFoundError):
            return None
        return _read(found)

    def knows(self, told: Object) -> bool:
        """Whether there are objects of its kind."""
        try:
            self._kind(told)
        except ResourceNotFoundError:
            return False
        return True

    def every(self, kind: Object, **which: Any) -> list[Object]:
        items = _read(self._kind(kind).get(serialize=False, **which))["items"]
        return [{**one, **kind} for one in items]

    def apply(self, told: Object) -> bool:
        """Have the object as it is told; whether it was another before."""
        before = self.find(told)
        if self._check and before is None:
            return True
        given = {"namespace": told["metadata"].get("namespace"), **self._dry()}
        answer = self._kind(told).server_side_apply(
            told, field_manager=WHO, force_conflicts=True, serialize=False, **given
        )
        return before is None or _told(before) != _told(_read(answer))

    def patch(self, which: Object, change: Object) -> None:
        self._kind(which).patch(
            change,
            which["metadata"]["name"],
            content_type="application/merge-patch+json",
            serialize=False,
            **self._dry(),
        )

    def delete(self, which: Object) -> bool:
        """Begin to remove an object; whether there is one that was not going yet."""
        found = self.find(which)
        if found is None or _goes(found):
            return False
        where = which["metadata"]
        given = {"grace_period_seconds": GRACE_S} if which["kind"] == "Pod" else {}
        try:
            self._kind(which).delete(
                where["name"],
                where.get("namespace"),
                propagation_policy="Background",
                serialize=False,
                **given,
                **self._dry(),
            )
        except NotFoundError:
            return False
        return True

    def wait(self, for_what: str, missing: Callable[[], Iterable[str]]) -> None:
        """Until nothing is missing. Raises Refused with what is."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._check and (names := list(missing())):
            if time.monotonic() > deadline:
                raise Refused(
                    f"{for_what} within {PATIENCE_S:.0f} s",
                    given=", ".join(names),
                    then="look what the cluster says of it (kubectl describe)",
                )
            time.sleep(LOOK_S)

    def _dry(self) -> dict[str, str]:
        return {"dry_run": "All"} if self._check else {}

    def _kind(self, told: Object) -> Any:
        return self._known.resources.get(api_version=told["apiVersion"], kind=told["kind"])


def act(state: str, network: Network, kubeconfig: str, folder: Path, *, check: bool) -> list[str]:
    """Have it `present` or `removed`: the names of what changed. Or see that it is `absent`.

    `folder` is for what goes with the process. Raises Refused.
    """
    try:
        cluster = Cluster(kubeconfig, folder, check=check)
        if state != "absent":
            return (present if state == "present" else removed)(cluster, network)
        found = left(cluster, network)
    except GONE as error:
        raise Refused(
            "the cluster does what it is told",
            given=said(error),
            then="look whether its control plane runs, and into its log",
        ) from error
    if found:
        raise Refused("nothing of a network is left in the cluster", given=", ".join(found))
    return []


def present(cluster: Cluster, network: Network) -> list[str]:
    """Have it, and pods that stand on it; the names of what was not so before."""
    cluster.wait("what is going has gone", lambda: map(_name, _going(cluster, network)))
    done = _close(cluster, _nodes(cluster, network), closed=False)
    done += _apply(cluster, _kinds(network))
    cluster.wait("a cluster takes kinds of objects", lambda: _untaken(cluster, network))
    done += _apply(cluster, map(network.bound, network.objects))
    cluster.wait("its pods run", lambda: _unready(cluster, network))
    # Only now: a pod for which there is no network yet is tried again after ten seconds.
    done += _apply(cluster, map(network.bound, network.probe))
    cluster.wait("hosts have a network, and pods on it", lambda: _waited(cluster, network))
    return done


def removed(cluster: Cluster, network: Network) -> list[str]:
    """Take it out of the cluster; the names of what there was.

    No pod of it is left on the hosts then. The cluster may not be through with the rest.
    """
    # What has an address of the network goes first, while that can still be given back.
    done = _delete(cluster, network.probe)
    nodes = _nodes(cluster, network)
    done += _close(cluster, nodes, closed=True)
    _clear(cluster, [pod for pod in cluster.every(PODS) if _must_go(pod, network)])
    # Nothing new comes into a namespace that goes.
    done += _delete(cluster, [one for one in network.objects if one["kind"] == "Namespace"])
    done += _delete(cluster, [one for one in network.objects if one["apiVersion"] == RUNS])
    _clear(cluster, cluster.every(PODS, namespace=network.namespace))
    done += _delete(cluster, [*network.outside()[::-1], *_group(cluster, network)])
    for node in nodes:
        noted = dict.fromkeys(network.notes & node["metadata"].get("annotations", {}).keys())
        if noted:
            cluster.patch(node, {"metadata": {"annotations": noted}})
            done.append(_name(node))
    return done


def left(cluster: Cluster, network: Network) -> list[str]:
    """The names of what the cluster still has of it. What is going is waited for."""
    cluster.wait("what is going has gone", lambda: map(_name, _going(cluster, network)))
    return [_name(one) for one in _there(cluster, network)]


def _there(cluster: Cluster, network: Network) -> list[Object]:
    found = [cluster.find(one) for one in network.outside()]
    return [one for one in found if one] + _group(cluster, network)


def _going(cluster: Cluster, network: Network) -> list[Object]:
    return [one for one in _there(cluster, network) if _goes(one)]


def _apply(cluster: Cluster, objects: Iterable[Object]) -> list[str]:
    return [_name(one) for one in objects if cluster.apply(one)]


def _delete(cluster: Cluster, objects: Iterable[Object]) -> list[str]:
    return [_name(one) for one in objects if cluster.delete(one)]


def _clear(cluster: Cluster, pods: Sequence[Object]) -> None:
    """Remove pods, and wait until they have gone; others of their names may have come."""
    _delete(cluster, pods)
    numbers = {pod["metadata"]["uid"] for pod in pods}
    cluster.wait(
        "pods go from their nodes",
        lambda: [_name(p) for p in cluster.every(PODS) if p["metadata"]["uid"] in numbers],
    )


def _must_go(pod: Object, network: Network) -> bool:
    """Whether it has an address of the network, or a host that pods are kept away from.

    Pods of the host's own address stay where a node needs them: those of its files, and agents.
    """
    owners = {one["kind"] for one in pod["metadata"].get("ownerReferences", [])}
    stays = pod["spec"].get("hostNetwork") and owners & {"DaemonSet", "Node"}
    return pod["spec"].get("nodeName") in network.hosts and not stays


def _nodes(cluster: Cluster, network: Network) -> list[Object]:
    """Those of its hosts that the cluster knows."""
    return [node for node in cluster.every(NODES) if _name(node) in network.hosts]


def _close(cluster: Cluster, nodes: Iterable[Object], *, closed: bool) -> list[str]:
    """Keep new pods away from nodes, or let them come; the names of those that were otherwise."""
    other = [node for node in nodes if node["spec"].get("unschedulable", False) != closed]
    for node in other:
        cluster.patch(node, {"spec": {"unschedulable": closed}})
    return [_name(node) for node in other]


def _kinds(network: Network) -> Iterator[Object]:
    """Definitions of kinds, from its file."""
    if network.kinds:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        with Path(network.kinds).open() as file:
            yield from filter(None, yaml.load_all(file, loader))


def _group(cluster: Cluster, network: Network) -> list[Object]:
    """The kinds of objects that the cluster knows of the network."""
    if not network.group:
        return []
    return [kind for kind in cluster.every(KINDS) if kind["spec"]["group"] == network.group]


def _untaken(cluster: Cluster, network: Network) -> list[str]:
    """Kinds of which the cluster takes no objects yet; of those it is told, it must."""
    told = _group(cluster, network) if network.kinds else []
    unknown = [one["kind"] for one in network.objects if not cluster.knows(one)]
    return [*(_name(kind) for kind in told if not _is(kind, "Established")), *unknown]


def _waited(cluster: Cluster, network: Network) -> list[str]:
    nodes = {_name(node): node for node in _nodes(cluster, network)}
    unready = [name for name in network.hosts if not _is(nodes.get(name, {}), "Ready")]
    return [*unready, *_unready(cluster, network)]


def _unready(cluster: Cluster, network: Network) -> list[str]:
    """Of each set of pods that is not whole, how many are."""
    found = []
    for one in cluster.every(SETS, namespace=network.namespace):
        status = one["status"]
        wanted, ready = status["desiredNumberScheduled"], status.get("numberAvailable", 0)
        current = status.get("observedGeneration") == one["metadata"]["generation"]
        if not current or not ready == status.get("updatedNumberScheduled", 0) == wanted:
            found.append(f"{_name(one)}: {ready} of {wanted}")
    return found


def _is(which: Object, condition: str) -> bool:
    said = which.get("status", {}).get("conditions") or []  # null as long as there is none
    return (condition, "True") in [(one["type"], one["status"]) for one in said]


def _goes(which: Object) -> bool:
    return "deletionTimestamp" in which["metadata"]


def _name(which: Object) -> str:
    return str(which["metadata"]["name"])


def _told(which: Object) -> Object:
    of = {key: value for key, value in which["metadata"].items() if key not in OWN}
    return {**{key: value for key, value in which.items() if key != "status"}, "metadata": of}


def _read(answer: Any) -> Object:
    return dict(json.loads(answer.data))
