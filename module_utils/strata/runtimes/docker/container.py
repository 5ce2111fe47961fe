"""`docker`: the program runs in a container of the image's import, with the least it needs."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import tarfile
import threading
import time
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import Mount

from ... import networks
from ...host import cgroup, processes
from ...host.counters import Counters
from ..base import (
    LOG_BYTES,
    SCRATCH,
    Ended,
    RuntimeLostError,
    Spec,
    StartError,
    exit_code,
    open_files,
    program,
    shared_memory,
    tail,
    watched,
)
from .images import REPOSITORY, reference

LABEL = "strata.trial"
# Threads of TensorFlow and its peers, far above what any host needs, far below a fork bomb.
PROCESS_LIMIT = 4096
GONE = (DockerException, requests.exceptions.RequestException)
MILLISECONDS = 1000
NANO = 1e9
LOG_LIMITS = {"max-size": "16m", "max-file": "2"}
# Like the native runtime: what is built there can be run. Docker's own default forbids it.
TMP_OPTIONS = "mode=1777,exec"
# Longer than any trial: its own time limit ends it.
WAIT_SECONDS = 7 * 24 * 3600


class Docker:
    """One program, run in a container."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._client: Any = None
        self._container: Any = None
        self._pid: int | None = None
        self._folders: dict[str, Any] = {}
        self._meter: cgroup.Meter | None = None
        self._code: int | None = None
        self._lost = ""
        self._at = 0.0  # when the end was seen
        self._ended = threading.Event()
        self._last = Counters()
        self._kills: int | None = None  # of the container's processes, for want of memory
        self._kills_before = processes.memory_kills()

    def prepare(self) -> None:
        try:
            self._client = docker.from_env()
            self._client.images.get(_reference(self._spec))
            if self._own_network():
                self._make_network()
        except GONE as error:
            raise StartError(f"Docker: {error}") from error

    def launch(self) -> None:
        try:
            self._container = self._client.containers.create(**self._arguments())
            self._take_place()
            self._give_scratch()
            self._container.start()
        except GONE as error:
            raise StartError(f"Docker: {error}") from error
        threading.Thread(target=self._watch, daemon=True).start()
        self.usage()

    def _arguments(self) -> dict[str, Any]:
        """What the container is given: no capability, no file to write to but its own."""
        spec, given = self._spec, self._spec.resources
        mounts = {f"{spec.spool}/in": "/in", f"{spec.spool}/out": "/out"}
        if self._storage() == "disk":
            mounts[f"{spec.spool}/scratch"] = SCRATCH
        volumes = {source: {"bind": target, "mode": "rw"} for source, target in mounts.items()}
        volumes[f"{spec.spool}/in"]["mode"] = "ro"
        if spec.data:
            volumes[str(spec.data)] = {"bind": "/data", "mode": "ro"}
        gpus = [docker.types.DeviceRequest(device_ids=given.gpus or [], capabilities=[["gpu"]])]
        return {
            "image": _reference(spec),
            "command": program(spec),
            "environment": spec.environment,
            "labels": {LABEL: spec.name, "strata.run": spec.run},
            "user": f"{spec.account}:{spec.account}",
            **self._network(),
            "volumes": volumes,
            **self._writable(),
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": PROCESS_LIMIT,
            "init": False,
            # Like the native runtime; no core file of gigabytes when a hung program is ended.
            "ulimits": [
                docker.types.Ulimit(name=name, soft=most, hard=most)
                for name, most in (("core", 0), ("nofile", open_files()))
            ],
            "shm_size": shared_memory(),
            # Whatever the engine's own default is: a driver whose log can be read.
            "log_config": docker.types.LogConfig(type="json-file", config=LOG_LIMITS),
            "cpuset_cpus": given.cpus,
            "nano_cpus": None if given.quota is None else round(given.quota * NANO),
            "cpuset_mems": None if given.numa is None else str(given.numa),
            "mem_limit": given.memory,
            "memswap_limit": given.memory,
            "device_requests": gpus if given.gpus else None,
        }

    def _storage(self) -> str:
        """Where its scratch space is; '' where it has none."""
        return self._spec.storage if self._spec.scratch else ""

    def _writable(self) -> dict[str, Any]:
        """What it may write to beside folders of the host."""
        storage, account = self._storage(), self._spec.account
        places = {"/tmp": TMP_OPTIONS}  # noqa: S108 - a path inside the container
        if storage == "tmpfs":
            places[SCRATCH] = f"mode=700,uid={account},gid={account},exec"
        volumes = [Mount(SCRATCH, None, type="volume")] if storage == "volume" else []
        return {"tmpfs": places, "mounts": volumes, "read_only": storage != "layer"}

    def _give_scratch(self) -> None:
        """Let its account have the folder that the engine made, or make one in its layer."""
        account = self._spec.account
        if self._storage() == "volume":
            self._container.reload()
            for mount in self._container.attrs["Mounts"]:
                if mount["Destination"] == SCRATCH:
                    os.chown(mount["Source"], account, account)
        if self._storage() == "layer":
            self._container.put_archive("/", _a_folder(SCRATCH, account))

    def _own_network(self) -> bool:
        """Whether peers on this host talk over a bridge that is made for their trial."""
        return self._spec.network == "bridge" and bool(self._spec.trial)

    def _network(self) -> dict[str, Any]:
        """How it is connected, and where peers find it."""
        spec = self._spec
        network = networks.get(spec.network)
        if self._own_network() or network.peers in ("name", "place"):
            # The engine's own name service knows containers there by their name.
            return {"network": network.called or f"strata-{spec.trial}", "name": spec.name}
        published = {f"{port.number}/{port.protocol}": port.number for port in spec.ports}
        ports = {"ports": published} if published and spec.network == "bridge" else {}
        return {"network_mode": "host" if network.of_host else network.name, **ports}

    def _take_place(self) -> None:
        """Give it the address at which its peers look for it, before it starts."""
        if self._spec.place:
            network = self._client.networks.get(networks.get(self._spec.network).called)
            network.disconnect(self._container)
            network.connect(self._container, ipv4_address=self._spec.place)

    def _make_network(self) -> None:
        """The trial's own bridge, unless a peer has made it."""
        name = f"strata-{self._spec.trial}"
        if not self._client.networks.list(names=[name]):
            labels = {LABEL: self._spec.trial}
            self._client.networks.create(name, driver="bridge", labels=labels)

    def _watch(self) -> None:
        """Waits for the end on a connection of its own, so that it is seen at once."""
        try:
            with contextlib.closing(docker.from_env(timeout=WAIT_SECONDS)) as client:
                answer = client.api.wait(self._container.id, timeout=WAIT_SECONDS)
                self._code = int(answer["StatusCode"])
        except (*GONE, OSError) as error:
            self._lost = str(error) or type(error).__name__
        self._at = time.monotonic()
        self._ended.set()

    def wait(self, seconds: float) -> Ended | None:
        if not self._ended_within(seconds):
            return None
        if self._code is None:
            raise RuntimeLostError(f"Docker: {self._lost}")
        code = exit_code(self._code)
        # Not what the engine says of it: at times it misses the kernel's word.
        memory = processes.out_of_memory(code, self._kills, self._kills_before)
        return Ended(code, memory, self._at)

    def _ended_within(self, seconds: float) -> bool:
        """The process is gone some milliseconds before the engine says so."""
        deadline = time.monotonic() + seconds
        with watched(None if self._ended.is_set() else self._pid) as poll:
            if poll and not poll.poll(seconds * MILLISECONDS):
                return False
            if poll:
                self._look_last()
        over = self._ended.wait(max(0.0, deadline - time.monotonic()))
        if over:
            self._look_last()
        return over

    def _look_last(self) -> None:
        """At the counters, as they are at the end: the engine removes the group soon after it."""
        self.usage()
        if self._folders and self._kills is None:
            self._kills = cgroup.memory_kills(self._folders)

    def usage(self) -> Counters:
        """From the files of the container's control group; the API would take a second."""
        if not self._meter:
            self._find_group()
        if self._meter:
            now = self._meter.read()
            # The group goes with the container; the last that was seen stays.
            if now.cpu is not None:
                self._last = now
        return self._last

    def _find_group(self) -> None:
        if self._container is None or self._ended.is_set():
            return
        with contextlib.suppress(*GONE, OSError):
            self._container.reload()
            pid = self._container.attrs["State"]["Pid"]
            if pid:
                self._folders = cgroup.of_process(pid)
                self._meter = cgroup.Meter(self._folders)
                self._pid = pid

    def phases(self) -> dict[str, float]:
        return {}

    def signal(self, number: int) -> None:
        if self._container is not None:
            with contextlib.suppress(*GONE):
                self._container.kill(signal.Signals(number).name)

    def logs(self) -> tuple[str, str]:
        if self._container is None:
            return "", ""
        try:
            lines = {"tail": 2000}
            out = self._container.logs(stdout=True, stderr=False, **lines)
            err = self._container.logs(stdout=False, stderr=True, **lines)
        except GONE as error:
            return "", f"the container's log cannot be read: {error}"
        return tail(out[-LOG_BYTES:]), tail(err[-LOG_BYTES:])

    def remove(self) -> None:
        if self._client is None:
            return
        try:
            # By its label: the engine may have made it although no answer arrived.
            _remove_labelled(self._client, f"{LABEL}={self._spec.name}")
            if self._own_network():
                _remove_networks(self._client, f"{LABEL}={self._spec.trial}")
        except GONE:
            self._kill_without_engine()
        finally:
            self._client.close()

    def _kill_without_engine(self) -> None:
        """The engine went away, which does not end a container. Its record goes later."""
        listed = [folder / "cgroup.procs" for folder in set(self._folders.values())]
        for path in listed:
            with contextlib.suppress(OSError):
                for pid in path.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)


def _a_folder(path: str, account: int) -> bytes:
    """A tar with that one folder, which belongs to the account."""
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, 0o700, account, account
    with io.BytesIO() as out:
        with tarfile.open(fileobj=out, mode="w") as tar:
            tar.addfile(member)
        return out.getvalue()


def _reference(spec: Spec) -> str:
    return reference(spec.image["family"], spec.image["digest"])


def _remove_labelled(client: Any, label: str) -> list[str]:
    """Remove the containers that have the label; their names."""
    found = client.api.containers(all=True, filters={"label": label})
    for container in found:
        # It may be on its way out already.
        with contextlib.suppress(NotFound, APIError):
            client.api.remove_container(container["Id"], force=True, v=True)
    return [container["Names"][0].lstrip("/") for container in found]


def _remove_networks(client: Any, label: str) -> list[str]:
    """Remove the networks that have the label and no container; their names."""
    removed = []
    for network in client.api.networks(filters={"label": label}):
        with contextlib.suppress(NotFound, APIError):
            client.api.remove_network(network["Id"])
            removed.append(network["Name"])
    return removed


def everything() -> dict[str, list[str]]:
    """Containers of trials and workload images in the engine; nothing where none answers."""
    try:
        with contextlib.closing(docker.from_env()) as client:
            containers = client.containers.list(all=True, filters={"label": LABEL})
            images = client.images.list(name=REPOSITORY)
            return {
                "containers": [str(container.name) for container in containers],
                "images": [tag for image in images for tag in image.tags],
            }
    except GONE:
        return {}


def leftovers() -> list[str]:
    """Remove the containers and networks of trials that nobody watches any more."""
    try:
        with contextlib.closing(docker.from_env()) as client:
            containers = [f"container {name}" for name in _remove_labelled(client, LABEL)]
            return containers + [f"network {name}" for name in _remove_networks(client, LABEL)]
    except GONE:
        return []
