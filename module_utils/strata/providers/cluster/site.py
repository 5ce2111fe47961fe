"""The way to a cluster that exists: what it says, as the account of a kubeconfig. Only looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import kubernetes
import urllib3.exceptions
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from ...errors import Refused, said

GONE = (ApiException, ConfigException, urllib3.exceptions.HTTPError, OSError)
NOT_FOUND, FORBIDDEN = 404, 403
ANSWER_S = 30.0
# The label of all that is Strata's: the testbed that it is of.
TESTBED = "strata.testbed"
Rights = dict[str, dict[str, tuple[str, ...]]]  # verbs by group of the interface, and kind
# What is needed in the namespace; an agent's own rights among it, since nobody can give what he has
# not.
IN_NAMESPACE: Rights = {
    "": {
        "serviceaccounts": ("get", "create", "patch"),
        "configmaps": ("get", "create", "patch"),
        "services": ("get", "list", "create", "patch", "delete"),
        "secrets": ("get", "create", "patch", "deletecollection"),
        "events": ("list",),
        "pods": ("list", "watch"),
        "pods/exec": ("create",),
        "pods/attach": ("get", "create"),
    },
    "apps": {"daemonsets": ("get", "list", "create", "patch", "delete")},
    "batch": {"jobs": ("list", "create", "delete")},
    "networking.k8s.io": {"networkpolicies": ("get", "list", "create", "patch", "delete")},
    "rbac.authorization.k8s.io": {
        "roles": ("get", "create", "patch"),
        "rolebindings": ("get", "create", "patch"),
    },
}
OF_CLUSTER: Rights = {
    "": {"nodes": ("get", "list"), "namespaces": ("get", "list", "create", "patch", "delete")}
}


@dataclass(frozen=True)
class Right:
    """To do something with a kind of things; in a namespace, or '' for the whole cluster."""

    verb: str
    group: str
    resource: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


class Site:
    """Every method raises Refused where the cluster does not answer."""

    def __init__(self, kubeconfig: str, context: str) -> None:
        try:
            self._client = kubernetes.config.new_client_from_config(
                kubeconfig or None, context or None
            )
        except GONE as error:
            raise _silent(error) from None
        self._core = kubernetes.client.CoreV1Api(self._client)

    def nodes(self) -> dict[str, Any]:
        """By name."""
        return {node.metadata.name: node for node in self._all(self._core.list_node)}

    def namespace(self, name: str) -> Any:
        """The namespace of that name; None without one."""
        try:
            return self._core.read_namespace(name, _request_timeout=ANSWER_S)
        except ApiException as error:
            if error.status == NOT_FOUND:
                return None
            raise _silent(error) from None
        except GONE as error:
            raise _silent(error) from None

    def lacks(self, namespace: str) -> list[Right]:
        """What this account may not do, of all that is needed."""
        asked = kubernetes.client.AuthorizationV1Api(self._client)
        return [right for right in needed(namespace) if not self._may(asked, right)]

    def _may(self, asked: Any, right: Right) -> bool:
        resource, _, sub = right.resource.partition("/")
        attributes = {
            **{"verb": right.verb, "group": right.group, "resource": resource},
            **{"subresource": sub, "namespace": right.namespace},
        }
        body = {"spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}}}
        try:
            said = asked.create_self_subject_access_review(body, _request_timeout=ANSWER_S)
        except GONE as error:
            raise _silent(error) from None
        return bool(said.status.allowed)

    def pods(self, namespace: str, selector: str) -> list[Any]:
        return self._all(self._core.list_namespaced_pod, namespace, label_selector=selector)

    def is_rolled_out(self, namespace: str, name: str) -> bool:
        """Whether all pods of a daemon set are those that it asks for now."""
        apps = kubernetes.client.AppsV1Api(self._client)
        try:
            found = apps.read_namespaced_daemon_set(name, namespace, _request_timeout=ANSWER_S)
        except GONE as error:
            raise _silent(error) from None
        seen, status = found.status.observed_generation or 0, found.status
        updated = status.updated_number_scheduled or 0
        return bool(
            seen >= found.metadata.generation and updated >= status.desired_number_scheduled
        )

    def warnings(self, namespace: str, name: str) -> list[str]:
        """What went wrong with a thing of that name, the last first."""
        given = {"field_selector": f"involvedObject.name={name},type=Warning"}
        events = self._all(self._core.list_namespaced_event, namespace, **given)
        return [str(event.message) for event in reversed(events)]

    def found(self, testbed: str) -> dict[str, list[str]]:
        """All that bears the testbed's name, by kind, wherever in the cluster it may be looked."""
        batch = kubernetes.client.BatchV1Api(self._client)
        apps = kubernetes.client.AppsV1Api(self._client)
        rbac = kubernetes.client.RbacAuthorizationV1Api(self._client)
        kinds: dict[str, Callable[..., Any]] = {
            "namespaces": self._core.list_namespace,
            "persistent volumes": self._core.list_persistent_volume,
            "roles of the cluster": rbac.list_cluster_role,
            "their bindings": rbac.list_cluster_role_binding,
            "pods": self._core.list_pod_for_all_namespaces,
            "secrets": self._core.list_secret_for_all_namespaces,
            "daemon sets": apps.list_daemon_set_for_all_namespaces,
            "jobs": batch.list_job_for_all_namespaces,
        }
        found = {kind: list(self._named(look, testbed)) for kind, look in kinds.items()}
        return {kind: names for kind, names in found.items() if names}

    def _named(self, look: Callable[..., Any], testbed: str) -> Iterator[str]:
        try:
            items = look(label_selector=f"{TESTBED}={testbed}", _request_timeout=ANSWER_S).items
        except ApiException as error:
            # Where the account may not look, it cannot have made anything either.
            if error.status == FORBIDDEN:
                return
            raise _silent(error) from None
        except GONE as error:
            raise _silent(error) from None
        for item in items:
            yield "/".join(filter(None, (item.metadata.namespace, item.metadata.name)))

    def _all(self, look: Any, *given: Any, **more: Any) -> list[Any]:
        try:
            return list(look(*given, **more, _request_timeout=ANSWER_S).items)
        except GONE as error:
            raise _silent(error) from None


def needed(namespace: str) -> list[Right]:
    """All rights that are needed."""
    return [
        Right(verb, group, resource, where)
        for where, groups in (("", OF_CLUSTER), (namespace, IN_NAMESPACE))
        for group, resources in groups.items()
        for resource, verbs in resources.items()
        for verb in verbs
    ]


def _silent(error: BaseException) -> Refused:
    return Refused(
        "the cluster answers the account of the kubeconfig",
        example="cluster_kubeconfig: ~/.kube/config, and one of its contexts as cluster_context",
        given=said(error),
        then="see what this says: kubectl --kubeconfig FILE --context NAME get nodes",
    )


def missing(rights: Sequence[Right], namespace: str) -> str:
    """Rights for people, those of the cluster first."""
    parts = {
        "in the cluster": [str(one) for one in rights if not one.namespace],
        f"in the namespace {namespace}": [str(one) for one in rights if one.namespace],
    }
    return "; ".join(f"{where}: {', '.join(what)}" for where, what in parts.items() if what)
