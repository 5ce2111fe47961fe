"""What the cluster is asked for: the Job of a program, and who may talk to it. Plain objects."""

from __future__ import annotations

import base64
import inspect
from dataclasses import dataclass
from typing import Any

from ... import networks, units
from ..base import SCRATCH, Spec, program, shared_memory
from . import companion
from .images import reference

# As roles/kubernetes/templates/trials.yml.j2 and roles/cluster/templates/agents.yml.j2 have them:
# the namespace of a cluster of Strata's own, and the headless Service by which the pods of trials
# have names.
NAMESPACE, SERVICE = "strata", "trials"
PROGRAM, TRIAL, NODE = "strata.program", "strata.trial", "strata.node"
RUNS = "strata.runs"  # by which the Service knows them
IMAGE = "strata.image"  # of a pod that does nothing but keep an image on its node
CONTAINER, COMPANION = "program", "companion"
MILLI = 1000
# What a companion is given where all of a pod must be given something.
COMPANION_LIMITS = {"cpu": "100m", "memory": "64Mi"}
# Both outputs go to files, as a cluster's log does not tell them apart; the shell is gone then.
TO_FILES = f'exec "$@" >{companion.LOGS}/stdout 2>{companion.LOGS}/stderr'
LOGGED = ("/bin/sh", "-c", TO_FILES, "sh")
Object = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where in a cluster programs run, and from what."""

    node: str
    namespace: str = NAMESPACE
    domain: str = f"{NAMESPACE}.svc.cluster.local"  # of names in that namespace
    # In a cluster that exists: its image there. Nothing of the node's disk is then mounted, and a
    # companion in the pod tells of the program. '' for an image in the engine of a node of ours.
    image: str = ""


def job(spec: Spec, place: Place) -> Object:
    """The Job of one program: a pod on that node, with the least it needs, started once."""
    marked = {"labels": labels(spec, place.node)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": spec.name, **marked},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": marked, "spec": _pod(spec, place)},
        },
    }


def given(spec: Spec, node: str) -> Object:
    """What a program is given, where nothing of the node's disk is mounted."""
    files = sorted((spec.spool / "in").iterdir())
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": spec.name, "labels": labels(spec, node)},
        "data": {file.name: base64.b64encode(file.read_bytes()).decode() for file in files},
    }


def policy(spec: Spec, node: str) -> Object:
    """Lets members of its trial reach the program; all others are denied by the namespace.

    Those on their host's own network are no pods: they are known by its addresses.
    """
    hosts = [{"ipBlock": {"cidr": f"{address}/32"}} for address in spec.from_hosts]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": spec.name, "labels": labels(spec, node)},
        "spec": {
            "podSelector": {"matchLabels": {PROGRAM: spec.name}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": {TRIAL: spec.member_of}}}, *hosts]}
            ],
        },
    }


def service(spec: Spec, node: str) -> Object:
    """An address of the cluster's before the program, at the same ports."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": spec.service, "labels": labels(spec, node)},
        "spec": {
            "selector": {PROGRAM: spec.name},
            "publishNotReadyAddresses": True,
            "ports": [
                {"name": port.name, "protocol": port.protocol.upper(), "port": port.number}
                for port in spec.ports
            ],
        },
    }


def labels(spec: Spec, node: str) -> Object:
    return {PROGRAM: spec.name, TRIAL: spec.member_of, NODE: node, RUNS: CONTAINER}


def _pod(spec: Spec, place: Place) -> Object:
    memory = {"medium": "Memory"}
    mounts, volumes = _carried(spec) if place.image else _of_the_node(spec)
    companions = [_companion(spec, place)] if place.image else []
    return {
        "restartPolicy": "Never",
        "affinity": {"nodeAffinity": on(place.node)},
        **({"shareProcessNamespace": True} if place.image else {}),
        # It is where the plan says, be it the control plane, or a node without a network of pods.
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": networks.get(spec.network).of_host,
        "dnsPolicy": _names(spec),
        "hostname": spec.name,
        "subdomain": SERVICE,
        # A peer's name that is not there yet is nobody else's: the cluster would ask outside of it,
        # and where nobody answers, one such question is four seconds.
        "dnsConfig": {
            "searches": [f"{SERVICE}.{place.domain}"],
            "options": [{"name": "no-tld-query"}],
        },
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": {
            "runAsUser": spec.account,
            "runAsGroup": spec.account,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            *companions,
            {
                **_container(CONTAINER, place.image or _imported(spec), _limits(spec)),
                "command": [*(LOGGED if companions else ()), *program(spec)],
                "env": [{"name": name, "value": text} for name, text in spec.environment.items()],
                "volumeMounts": [
                    *mounts,
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
                    {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
                ],
            },
        ],
        "volumes": [
            *volumes,
            {"name": "tmp", "emptyDir": memory},
            {"name": "shm", "emptyDir": {**memory, "sizeLimit": str(shared_memory())}},
        ],
    }


def on(*nodes: str) -> Object:
    """On one of these nodes, by their names."""
    names = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]
    terms = [{"matchFields": [name]} for name in names]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _container(name: str, image: str, limits: Object) -> Object:
    """One that is given no rights."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "Never",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"limits": limits, "requests": limits},
    }


def _companion(spec: Spec, place: Place) -> Object:
    """Looks at the program from beside it, before which it is started."""
    whole = spec.resources.memory and spec.resources.quota
    return {
        **_container(COMPANION, place.image, COMPANION_LIMITS if whole else {}),
        "command": ["/usr/bin/python3", "-c", inspect.getsource(companion)],
        "stdin": True,
        "volumeMounts": [
            {"name": "out", "mountPath": companion.OUT},
            {"name": "logs", "mountPath": companion.LOGS},
        ],
    }


def _imported(spec: Spec) -> str:
    return reference(spec.image["family"], spec.image["digest"])


def _of_the_node(spec: Spec) -> tuple[list[Object], list[Object]]:
    """Mounts and volumes: the folders of the trial."""
    folders = [
        ("in", f"{spec.spool}/in", "/in", True),
        ("out", f"{spec.spool}/out", "/out", False),
        *([("scratch", f"{spec.spool}/scratch", SCRATCH, False)] if spec.scratch else []),
        *([("data", str(spec.data), "/data", True)] if spec.data else []),
    ]
    mounts = [{"name": name, "mountPath": at, "readOnly": only} for name, _, at, only in folders]
    return mounts, [{"name": name, "hostPath": {"path": path}} for name, path, _, _ in folders]


def _carried(spec: Spec) -> tuple[list[Object], list[Object]]:
    """Mounts and volumes: what was given through the cluster, and folders that go with the pod."""
    folders = {"out": companion.OUT, "logs": companion.LOGS}
    folders |= {"scratch": SCRATCH} if spec.scratch else {}
    mounts = [{"name": name, "mountPath": at} for name, at in folders.items()]
    volumes: list[Object] = [{"name": name, "emptyDir": {}} for name in folders]
    return (
        [{"name": "in", "mountPath": "/in", "readOnly": True}, *mounts],
        [{"name": "in", "secret": {"secretName": spec.name}}, *volumes],
    )


def _names(spec: Spec) -> str:
    """Whom it asks for names: the cluster, where its peers have some there."""
    if not networks.get(spec.network).of_host:
        return "ClusterFirst"
    by_name = not networks.get(spec.peers_network).of_host
    return "ClusterFirstWithHostNet" if by_name else "Default"


def _limits(spec: Spec) -> Object:
    """What it is given is asked for as well: the pod's class is Guaranteed where both are."""
    given = spec.resources
    # Whole CPUs, of class Guaranteed: those the node's CPU manager gives to the pod alone.
    own = len(units.cpu_set(given.cpus)) if given.cpus else 0
    return {
        **({"cpu": str(own)} if own else {}),
        **({"cpu": f"{round(given.quota * MILLI)}m"} if given.quota else {}),
        **({"memory": str(given.memory)} if given.memory else {}),
        **({"nvidia.com/gpu": str(len(given.gpus))} if given.gpus else {}),
    }
