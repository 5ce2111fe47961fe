"""What the cluster is asked for: the Job of a program, and who may talk to it. Plain objects."""

from __future__ import annotations

from typing import Any

from ... import networks
from ..base import SCRATCH, Spec, program, shared_memory
from .images import reference

# As roles/kubernetes/templates/trials.yml.j2 has them: the namespace, and the headless Service by
# which the pods of trials have names.
NAMESPACE, SERVICE = "strata", "trials"
PROGRAM, TRIAL, NODE = "strata.program", "strata.trial", "strata.node"
RUNS = "strata.runs"  # by which the Service knows them
CONTAINER = "program"
MILLI = 1000
Object = dict[str, Any]


def job(spec: Spec, node: str) -> Object:
    """The Job of one program: a pod on that node, with the least it needs, started once."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": spec.name, "labels": labels(spec, node)},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels(spec, node)}, "spec": _pod(spec, node)},
        },
    }


def policy(spec: Spec, node: str) -> Object:
    """Lets the pods of its trial reach the program; all others are denied by the namespace."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": spec.name, "labels": labels(spec, node)},
        "spec": {
            "podSelector": {"matchLabels": {PROGRAM: spec.name}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {TRIAL: spec.member_of}}}]}],
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


def _pod(spec: Spec, node: str) -> Object:
    mounts = [
        ("in", f"{spec.spool}/in", "/in", True),
        ("out", f"{spec.spool}/out", "/out", False),
        *([("scratch", f"{spec.spool}/scratch", SCRATCH, False)] if spec.scratch else []),
        *([("data", str(spec.data), "/data", True)] if spec.data else []),
    ]
    memory = {"medium": "Memory"}
    limits = _limits(spec)
    return {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": node},
        # It is where the plan says, be it the control plane, or a node without a network of pods.
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": networks.get(spec.network).of_host,
        "dnsPolicy": _names(spec),
        "hostname": spec.name,
        "subdomain": SERVICE,
        "dnsConfig": {"searches": [f"{SERVICE}.{NAMESPACE}.svc.cluster.local"]},
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
            {
                "name": CONTAINER,
                "image": reference(spec.image["family"], spec.image["digest"]),
                "imagePullPolicy": "Never",
                "command": program(spec),
                "env": [{"name": name, "value": text} for name, text in spec.environment.items()],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "resources": {"limits": limits, "requests": limits},
                "volumeMounts": [
                    *(
                        {"name": name, "mountPath": path, "readOnly": only}
                        for name, _, path, only in mounts
                    ),
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
                    {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
                ],
            }
        ],
        "volumes": [
            *({"name": name, "hostPath": {"path": path}} for name, path, _, _ in mounts),
            {"name": "tmp", "emptyDir": memory},
            {"name": "shm", "emptyDir": {**memory, "sizeLimit": str(shared_memory())}},
        ],
    }


def _names(spec: Spec) -> str:
    """Whom it asks for names: the cluster, where its peers have some there."""
    if not networks.get(spec.network).of_host:
        return "ClusterFirst"
    by_name = not networks.get(spec.peers_network).of_host
    return "ClusterFirstWithHostNet" if by_name else "Default"


def _limits(spec: Spec) -> Object:
    """What it is given is asked for as well: the pod's class is Guaranteed where both are."""
    given = spec.resources
    return {
        **({"cpu": f"{round(given.quota * MILLI)}m"} if given.quota else {}),
        **({"memory": str(given.memory)} if given.memory else {}),
        **({"nvidia.com/gpu": str(len(given.gpus))} if given.gpus else {}),
    }
