"""The cluster, as a node's modules ask it: by an account that may change its trials alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import kubernetes
import urllib3.exceptions
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from ...errors import Refused
from .node import CONFIG
from .objects import NAMESPACE, NODE, PROGRAM, Object

GONE = (ApiException, ConfigException, urllib3.exceptions.HTTPError, OSError)
NOT_FOUND, CONFLICT = 404, 409
ANSWER_S = 15.0
PATIENCE_S = 60.0  # for a pod to go, whose processes are killed
LOOK_S = 0.1


class StuckError(OSError):
    """Pods do not go from their node."""


class Cluster:
    """What is asked of it. Every method raises one of GONE where it does not answer."""

    def __init__(self) -> None:
        _, current = kubernetes.config.list_kube_config_contexts(str(CONFIG))
        self.node = str(current["name"])
        self._client = kubernetes.config.new_client_from_config(str(CONFIG))
        self.pods = kubernetes.client.CoreV1Api(self._client)
        self._jobs = kubernetes.client.BatchV1Api(self._client)
        self._policies = kubernetes.client.NetworkingV1Api(self._client)

    def close(self) -> None:
        self._client.close()

    def make_policy(self, policy: Object) -> None:
        self._policies.create_namespaced_network_policy(
            NAMESPACE, policy, _request_timeout=ANSWER_S
        )

    def make_service(self, service: Object) -> None:
        self.pods.create_namespaced_service(NAMESPACE, service, _request_timeout=ANSWER_S)

    def make_job(self, job: Object) -> None:
        self._jobs.create_namespaced_job(NAMESPACE, job, _request_timeout=ANSWER_S)

    def remove(self, selector: str) -> list[str]:
        """Remove the Jobs with their pods, and what else has the labels; the names of the Jobs.

        Waits until the pods have gone from the node.
        """
        given = {"label_selector": selector, "_request_timeout": ANSWER_S}
        jobs = self._jobs.list_namespaced_job(NAMESPACE, **given).items
        for job in jobs:
            background = {"propagation_policy": "Background", "_request_timeout": ANSWER_S}
            _unless_gone(self._jobs.delete_namespaced_job, job.metadata.name, **background)
        policies = self._policies.list_namespaced_network_policy(NAMESPACE, **given).items
        for policy in policies:
            _unless_gone(self._policies.delete_namespaced_network_policy, policy.metadata.name)
        for service in self.pods.list_namespaced_service(NAMESPACE, **given).items:
            _unless_gone(self.pods.delete_namespaced_service, service.metadata.name)
        deadline = time.monotonic() + PATIENCE_S
        while self.pods.list_namespaced_pod(NAMESPACE, **given).items:
            if time.monotonic() > deadline:
                raise StuckError(f"pods of {selector} do not go")
            time.sleep(LOOK_S)
        return [str(job.metadata.name) for job in jobs]

    def events(self, seconds: int, **given: Any) -> Any:
        """The pods that match, as they are and as they change, for at most that many seconds."""
        return kubernetes.watch.Watch().stream(
            self.pods.list_namespaced_pod, NAMESPACE, timeout_seconds=seconds, **given
        )


def of(program: str) -> str:
    """The labels of what a program has in the cluster."""
    return f"{PROGRAM}={program}"


def said(error: BaseException) -> str:
    """What went wrong, in a line: of an answer of the cluster its own words."""
    if isinstance(error, ApiException) and error.body:
        try:
            return str(json.loads(error.body)["message"])
        except (ValueError, KeyError, TypeError):
            return str(error.reason)
    return str(error) or type(error).__name__


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
        return [f"job {name}" for name in cluster.remove(f"{NODE}={cluster.node}")]
    except StuckError as error:
        raise Refused(
            "a trial begins where no pod of another one runs",
            given=f"{error} from {cluster.node} within {PATIENCE_S:.0f} s",
            then=f"see what holds them (kubectl -n {NAMESPACE} describe pods), and remove them",
        ) from None
    except GONE:
        return []
    finally:
        cluster.close()


def _unless_gone(delete: Callable[..., Any], name: str, **more: Any) -> None:
    try:
        delete(name, NAMESPACE, **more)
    except ApiException as error:
        if error.status != NOT_FOUND:
            raise
