"""The cluster, as a node's modules ask it: by an account that may change its trials alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes
import urllib3.exceptions
import websocket
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from ...errors import Refused
from ...host import agent
from .node import CONFIG
from .objects import COMPANION, IMAGE, NODE, PROGRAM, Object, Place

GONE = (
    *(ApiException, ConfigException, urllib3.exceptions.HTTPError, OSError),
    websocket.WebSocketException,
)
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RESOLVER = Path("/etc/resolv.conf")
NOT_FOUND, CONFLICT = 404, 409
ANSWER_S = 15.0
PATIENCE_S = 60.0  # for a pod to go, whose processes are killed
LOOK_S = 0.1


class StuckError(OSError):
    """Pods do not go from their node."""


class Cluster:
    """What is asked of it. Every method raises one of GONE where it does not answer."""

    def __init__(self) -> None:
        pod = agent.here()
        self.given = pod is not None
        if pod:
            namespace = (ACCOUNT / "namespace").read_text().strip()
            self.place = Place(pod.node, namespace, domain(RESOLVER.read_text(), namespace))
            configured = kubernetes.client.Configuration()
            kubernetes.config.load_incluster_config(client_configuration=configured)
            self._client = kubernetes.client.ApiClient(configured)
        else:
            _, current = kubernetes.config.list_kube_config_contexts(str(CONFIG))
            self.place = Place(str(current["name"]))
            self._client = kubernetes.config.new_client_from_config(str(CONFIG))
        self.pods = kubernetes.client.CoreV1Api(self._client)
        self._jobs = kubernetes.client.BatchV1Api(self._client)
        self._policies = kubernetes.client.NetworkingV1Api(self._client)

    def close(self) -> None:
        self._client.close()

    def held(self, image: str) -> str:
        """In a cluster that exists, what it calls the image that this node keeps; '' for none."""
        found = self.pods.list_namespaced_pod(
            self.place.namespace,
            label_selector=f"{IMAGE}={image}",
            field_selector=f"spec.nodeName={self.place.node},status.phase=Running",
            _request_timeout=ANSWER_S,
        ).items
        return str(found[0].spec.containers[0].image) if found else ""

    def attach(self, pod: str) -> Any:
        """To the companion in a pod: a stream."""
        # The stream takes over the client's way of asking, so that it has one of its own.
        asked = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(self._client.configuration))
        return kubernetes.stream.stream(
            asked.connect_get_namespaced_pod_attach,
            pod,
            self.place.namespace,
            container=COMPANION,
            **{"stdin": True, "stdout": True, "stderr": False, "tty": False},
            _preload_content=False,
            _request_timeout=ANSWER_S,
        )

    def give(self, secret: Object) -> None:
        self.pods.create_namespaced_secret(self.place.namespace, secret, _request_timeout=ANSWER_S)

    def make_policy(self, policy: Object) -> None:
        self._policies.create_namespaced_network_policy(
            self.place.namespace, policy, _request_timeout=ANSWER_S
        )

    def make_service(self, service: Object) -> None:
        self.pods.create_namespaced_service(
            self.place.namespace, service, _request_timeout=ANSWER_S
        )

    def make_job(self, job: Object) -> None:
        self._jobs.create_namespaced_job(self.place.namespace, job, _request_timeout=ANSWER_S)

    def pod(self, name: str) -> Any:
        """A pod as the cluster has it now; None where there is none any more."""
        given = {"field_selector": f"metadata.name={name}", "_request_timeout": ANSWER_S}
        return next(iter(self.pods.list_namespaced_pod(self.place.namespace, **given).items), None)

    def remove(self, selector: str) -> list[str]:
        """Remove the Jobs with their pods, and what else has the labels; the names of the Jobs.

        Waits until the pods have gone from the node.
        """
        given = {"label_selector": selector, "_request_timeout": ANSWER_S}
        here = self.place.namespace
        jobs = self._jobs.list_namespaced_job(here, **given).items
        for job in jobs:
            background = {"propagation_policy": "Background", "_request_timeout": ANSWER_S}
            _unless_gone(self._jobs.delete_namespaced_job, job, **background)
        for policy in self._policies.list_namespaced_network_policy(here, **given).items:
            _unless_gone(self._policies.delete_namespaced_network_policy, policy)
        for service in self.pods.list_namespaced_service(here, **given).items:
            _unless_gone(self.pods.delete_namespaced_service, service)
        if self.given:
            self.pods.delete_collection_namespaced_secret(here, **given)
        deadline = time.monotonic() + PATIENCE_S
        while self.pods.list_namespaced_pod(here, **given).items:
            if time.monotonic() > deadline:
                raise StuckError(f"pods of {selector} do not go")
            time.sleep(LOOK_S)
        return [str(job.metadata.name) for job in jobs]

    def events(self, seconds: int, **given: Any) -> Any:
        """The pods that match, as they are and as they change, for at most that many seconds."""
        return kubernetes.watch.Watch().stream(
            self.pods.list_namespaced_pod, self.place.namespace, timeout_seconds=seconds, **given
        )


def domain(resolver: str, namespace: str) -> str:
    """That of the names of a namespace, of the file in which a pod finds where to look for them."""
    words = [word for line in resolver.splitlines() for word in line.split()]
    usual = f"{namespace}.svc.cluster.local"
    return next((word for word in words if word.startswith(f"{namespace}.svc.")), usual)


def of(program: str) -> str:
    """The labels of what a program has in the cluster."""
    return f"{PROGRAM}={program}"


def leftovers() -> list[str]:
    """Remove the Jobs of trials on this node that nobody watches any more.

    Raises Refused where their pods stay: they would run beside the next trial.
    """
    # A cluster that does not answer now does not start the next trial either, which says why.
    try:
        cluster = Cluster()
    except GONE:
        return []
    try:
        return [f"job {name}" for name in cluster.remove(f"{NODE}={cluster.place.node}")]
    except StuckError as error:
        raise Refused(
            "a trial begins where no pod of another one runs",
            given=f"{error} from {cluster.place.node} within {PATIENCE_S:.0f} s",
            then=f"see what holds them (kubectl -n {cluster.place.namespace} describe pods), "
            "and remove them",
        ) from None
    except GONE:
        return []
    finally:
        cluster.close()


def _unless_gone(delete: Callable[..., Any], what: Any, **more: Any) -> None:
    try:
        delete(what.metadata.name, what.metadata.namespace, **more)
    except ApiException as error:
        if error.status != NOT_FOUND:
            raise
