"""`kubernetes`: the program runs in a pod of a Job, bound to this node."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ... import units
from ...errors import said
from ...host import processes
from ...host.counters import Counters
from ...image import rootfs
from ..base import Ended, RuntimeLostError, Spec, StartError, exit_code, tail
from . import objects
from .beside import Beside, wait_for
from .cluster import GONE, Cluster, of
from .objects import CONTAINER
from .pods import OnNode

WATCH_S = 300  # how long one connection is watched; then another is made
AGAIN_S = 0.5
# What a program has left comes from its companion right after its end, which the cluster tells.
LEFT_S = 30.0
# A node tells that a container has ended, and up to ten seconds later the pod's last phase.
LAST_S, ENDED = 30.0, ("Succeeded", "Failed")
REMOVED = "somebody removed the pod"
# What a container waits for that does not come: nothing is pulled, and the image was proven before.
HOPELESS = {
    "ErrImageNeverPull": "image",
    "ErrImagePull": "image",
    "ImagePullBackOff": "image",
    "InvalidImageName": "image",
    "CreateContainerConfigError": "start",
    "CreateContainerError": "start",
    "RunContainerError": "start",
}


def unheld(asked: str | None, there: Collection[int] | None) -> RuntimeLostError | None:
    """Why a program has not as many CPUs of its own as it asked for; None where it has.

    `there` are those that it may run on, None where that is not known yet.
    """
    if not asked or there is None or len(there) == len(units.cpu_set(asked)):
        return None
    why = f"asked for {len(units.cpu_set(asked))} CPUs of its own, it may run on {len(there)}"
    return RuntimeLostError(f"{why}: the node's CPU manager has given it none", "start")


def terminated(pod: Any) -> Any:
    """How the program's container has ended; None as long as it has not."""
    told = pod.status.container_statuses or []
    states = [one.state.terminated for one in told if one.name == CONTAINER]
    return next(filter(None, states), None)


def taken(pod: Any) -> RuntimeLostError | None:
    """That somebody else ends a pod that runs: its node, whoever drains that, or removes the pod.

    The pod's container then ends as if its program had, and this is all that tells the one from
    the other. A pod has a reason only where its node, or the cluster, has ended it: for want of
    memory, or since the node was told to have less than it had promised.
    """
    status = pod.status
    if status.reason == "Evicted":
        return RuntimeLostError(str(status.message), "evicted")
    for one in status.conditions or []:
        if one.type == "DisruptionTarget" and one.status == "True":
            return RuntimeLostError(f"{one.reason}: {one.message}", "evicted")
    if status.phase == "Failed" and status.reason and terminated(pod):
        return RuntimeLostError(f"{status.reason}: {status.message}", "evicted")
    if pod.metadata.deletion_timestamp:
        return RuntimeLostError(REMOVED)
    return None


def trouble(kind: str, pod: Any) -> RuntimeLostError | None:
    """Why a pod will never run its program, by what the cluster says of it; None where it may."""
    status = pod.status
    for one in status.conditions or []:
        if one.type == "PodScheduled" and one.reason == "Unschedulable":
            return RuntimeLostError(str(one.message), "unschedulable")
    for one in status.container_statuses or []:
        if one.state.waiting and one.state.waiting.reason in HOPELESS:
            waiting = one.state.waiting
            why = f"{waiting.reason}: {waiting.message}"
            return RuntimeLostError(why, HOPELESS[waiting.reason])
    if status.phase == "Failed":
        return RuntimeLostError(f"{status.reason}: {status.message}")
    return RuntimeLostError(REMOVED) if kind == "DELETED" else None


class Kubernetes:
    """One program, run as a Job."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._cluster: Any = None
        self._place: objects.Place
        self._view: OnNode | Beside = OnNode()
        self._pod = ""
        self._kills_before = processes.memory_kills()
        self._times: dict[str, float] = {}
        self._ended: Ended | None = None
        self._lost: RuntimeLostError | None = None
        self._signalled = False
        self._over, self._closed = threading.Event(), threading.Event()

    def prepare(self) -> None:
        try:
            self._cluster = Cluster()
            self._place = self._cluster.place
            if self._cluster.given:
                self._prepare_given()
            self._cluster.make_policy(objects.policy(self._spec, self._place.node))
            if self._spec.service:
                self._cluster.make_service(objects.service(self._spec, self._place.node))
        except GONE as error:
            raise StartError(f"Kubernetes: {said(error)}") from error

    def _prepare_given(self) -> None:
        """In a cluster that exists the image was pulled, and the program is given its file."""
        called = rootfs.name(self._spec.image["family"], self._spec.image["digest"])
        image = self._cluster.held(called)
        if not image:
            raise StartError(f"this node keeps no image {called}: deploy has it pulled")
        self._place = replace(self._place, image=image)
        self._view = Beside(self._spec, self._cluster)
        self._cluster.give(objects.given(self._spec, self._place.node))

    def launch(self) -> None:
        try:
            self._cluster.make_job(objects.job(self._spec, self._place))
        except GONE as error:
            raise StartError(f"Kubernetes: {said(error)}") from error
        self._times["made"] = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Follows the pod until it has ended; the cluster may be away for a while."""
        while not self._over.is_set() and not self._closed.is_set():
            try:
                given = {"label_selector": of(self._spec.name)}
                for event in self._cluster.events(WATCH_S, **given):
                    self._see(event["type"], event["object"])
                    if self._over.is_set() or self._closed.is_set():
                        return
            except GONE as error:
                # What runs goes on without the control plane; its end is told when that is back.
                if self._view.at or not self._view.began:
                    self._lose(RuntimeLostError(f"Kubernetes: {said(error)}"))
                self._closed.wait(AGAIN_S)

    def _see(self, kind: str, pod: Any) -> None:
        """Take note of what the cluster says of the pod."""
        if not self._pod:
            self._pod = pod.metadata.name
            about = (self._pod, pod.metadata.uid, self._is_over)
            threading.Thread(target=self._view.follow, args=about, daemon=True).start()
        if pod.spec.node_name and "scheduled" not in self._times:
            self._times["scheduled"] = time.monotonic()
        state = terminated(pod)
        if state and state.exit_code and not self._signalled:
            pod = self._last(pod)
        lost = taken(pod) if pod else RuntimeLostError(REMOVED)
        if not lost and not state:
            lost = trouble(kind, pod) or self._unheld()
        if lost:
            self._lose(lost)
        elif state:
            self._end(state)

    def _last(self, pod: Any) -> Any:
        """The pod with its last phase, by which its end has been explained; None if it is gone."""
        deadline = time.monotonic() + LAST_S
        while pod and not taken(pod) and pod.status.phase not in ENDED:
            if self._closed.wait(AGAIN_S) or time.monotonic() > deadline:
                break
            pod = self._cluster.pod(pod.metadata.name)
        return pod

    def _unheld(self) -> RuntimeLostError | None:
        return unheld(self._spec.resources.cpus, self._view.cpus)

    def _is_over(self) -> bool:
        return self._over.is_set() or self._closed.is_set()

    def _end(self, state: Any) -> None:
        wait_for(lambda: self._view.whole or self._closed.is_set(), LEFT_S)
        if not self._view.whole:
            self._lose(RuntimeLostError("its companion was not heard until the end"))
            return
        # It may have ended before the cluster said that it runs.
        if lost := self._unheld():
            self._lose(lost)
            return
        code = exit_code(state.exit_code)
        memory = state.reason == "OOMKilled" or processes.out_of_memory(
            code, self._view.kills, self._kills_before
        )
        self._ended = Ended(code, memory, self._view.at or time.monotonic())
        self._over.set()

    def _lose(self, lost: RuntimeLostError) -> None:
        self._lost = lost
        self._over.set()

    def wait(self, seconds: float) -> Ended | None:
        if not self._over.wait(seconds):
            return None
        if self._lost:
            raise self._lost
        return self._ended

    def usage(self) -> Counters:
        return self._view.usage()

    def phases(self) -> dict[str, float]:
        """Seconds until the pod had a node, and from there until its program was there."""
        times = [self._times.get("made"), self._times.get("scheduled"), self._view.began or None]
        parts = zip(("scheduling", "sandbox"), pairwise(times), strict=True)
        return {name: b - a for name, (a, b) in parts if a is not None and b is not None}

    def signal(self, number: int) -> None:
        self._signalled = True
        self._view.signal(number)

    def logs(self) -> tuple[str, str]:
        out, err = self._view.logs()
        return tail(out), tail(err)

    def remove(self) -> None:
        self._closed.set()
        if self._cluster is None:
            return
        # Its end is not asked for: what is still in it is killed at once.
        self.signal(signal.SIGKILL)
        self._view.close()
        try:
            self._cluster.remove(of(self._spec.name))
        except GONE as error:
            raise OSError(f"Kubernetes: {said(error)}") from error
        finally:
            self._cluster.close()
