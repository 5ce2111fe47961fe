"""What a cluster is asked for, and what is read of a pod: on objects and files, without a cluster.

A real cluster is in tests/kubernetes.
"""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient
from strata.cell import Resources
from strata.errors import Refused
from strata.image import rootfs
from strata.members import Port
from strata.runtimes import kubernetes
from strata.runtimes.base import RuntimeLostError, Spec
from strata.runtimes.kubernetes import (
    beside,
    cluster,
    ends,
    images,
    job,
    node,
    objects,
    pod_network,
    pods,
    why_not,
)

from tests.conftest import REPO

ACCOUNT = 2_000_000_000
DIGEST = "0123456789ab" + "0" * 52


def spec_of(**more: Any) -> Spec:
    image = {"family": "tools", "kind": "rootfs", "digest": DIGEST, "rootfs": "/x"}
    given = {"network": "flannel_vxlan", "member_of": "t-r1", **more}
    return Spec("t-r1-client0", "run", "iperf3", Path("/s"), image, account=ACCOUNT, **given)


def pod_of(spec: Spec) -> dict[str, Any]:
    place = objects.Place("node1")
    found: dict[str, Any] = objects.job(spec, place)["spec"]["template"]["spec"]
    return found


def test_a_pod_is_on_its_node_and_has_the_least_it_needs() -> None:
    pod = pod_of(spec_of(environment={"LANG": "C.UTF-8"}))
    assert pod["affinity"]["nodeAffinity"] == objects.on("node1")
    assert pod["restartPolicy"] == "Never" and not pod["hostNetwork"]
    assert not pod["automountServiceAccountToken"]
    account = pod["securityContext"]
    assert (account["runAsUser"], account["runAsGroup"]) == (ACCOUNT, ACCOUNT)
    assert account["runAsNonRoot"] and account["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["image"] == "strata.local/workload:tools-0123456789ab"
    assert container["imagePullPolicy"] == "Never"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["env"] == [{"name": "LANG", "value": "C.UTF-8"}]
    assert container["command"][-4:] == ["--config", "/in/config.json", "--out", "/out"]
    only = {one["mountPath"]: one.get("readOnly", False) for one in container["volumeMounts"]}
    assert only == {"/in": True, "/out": False, "/tmp": False, "/dev/shm": False}


def test_in_a_cluster_that_exists_a_pod_keeps_to_what_a_restricted_namespace_lets_in(
    tmp_path: Path,
) -> None:
    spec = replace(spec_of(scratch=True, network="cluster"), spool=tmp_path)
    place = objects.Place("node1", "mine", "mine.svc.example", "registry/x@sha256:0")
    pod = objects.job(spec, place)["spec"]["template"]["spec"]
    assert not pod["hostNetwork"] and pod["dnsConfig"]["searches"] == ["trials.mine.svc.example"]
    assert {"name": "no-tld-query"} in pod["dnsConfig"]["options"], "names are asked in the cluster"
    kinds = {kind for one in pod["volumes"] for kind in one if kind != "name"}
    assert kinds == {"secret", "emptyDir"}, "nothing of the node's disk"
    assert [one["name"] for one in pod["containers"]] == ["companion", "program"]
    for one in pod["containers"]:
        assert one["image"] == place.image and one["imagePullPolicy"] == "Never"
        context = one["securityContext"]
        assert not context["allowPrivilegeEscalation"] and context["readOnlyRootFilesystem"]
    whole = replace(spec, resources=Resources(quota=1.0, memory=2**30))
    both = objects.job(whole, place)["spec"]["template"]["spec"]["containers"]
    assert all(one["resources"]["limits"].keys() == {"cpu", "memory"} for one in both)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/config.json").write_text("{}")
    assert objects.given(spec, "node1")["data"] == {"config.json": "e30="}


def test_names_are_looked_up_where_the_cluster_says() -> None:
    said = "nameserver 10.96.0.10\nsearch mine.svc.my.lab svc.my.lab my.lab\noptions ndots:5\n"
    assert cluster.domain(said, "mine") == "mine.svc.my.lab"
    assert cluster.domain("", "mine") == "mine.svc.cluster.local"


def test_what_a_program_left_is_unpacked_where_it_belongs_and_nowhere_else(tmp_path: Path) -> None:
    """The program wrote the archive's content: links, and names that lead out, are passed over."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, kind in (
            ("out/result.json", tarfile.REGTYPE),
            ("logs/stdout", tarfile.REGTYPE),
            ("out/../../escaped", tarfile.REGTYPE),
            ("elsewhere/x", tarfile.REGTYPE),
            ("out/link", tarfile.SYMTYPE),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.linkname = kind, 2 * (kind == tarfile.REGTYPE), "/etc"
            archive.addfile(entry, io.BytesIO(b"{}"))
    spool = tmp_path / "spool"
    spool.mkdir()
    seen = beside.Beside(replace(spec_of(), spool=spool), None)  # type: ignore[arg-type]
    for said in (
        {"began": 1.0},
        {"used": {"cpuacct.usage": "2000000000", "memory.usage_in_bytes": "4096"}},
        {"part": base64.b64encode(packed.getvalue()).decode()},
        {"collected": True},
        {"ended": 3.0},
    ):
        assert not seen.whole
        seen._hear(said)
    assert seen.whole and (seen.began, seen.at) == (1.0, 3.0)
    assert (seen.usage().cpu, seen.usage().memory) == (2.0, 4096)
    assert seen.logs() == (b"{}", b"")
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert there - {f"spool/group/{n}" for n in ("cpuacct.usage", "memory.usage_in_bytes")} == {
        "spool/out/result.json",
        "spool/logs/stdout",
    }


def test_what_is_given_is_asked_for_as_well() -> None:
    given = Resources(quota=1.5, memory=2**30, gpus=["0", "3"])
    (container,) = pod_of(spec_of(resources=given))["containers"]
    asked = {"cpu": "1500m", "memory": str(2**30), "nvidia.com/gpu": "2"}
    assert container["resources"] == {"limits": asked, "requests": asked}


def test_data_and_scratch_space_are_mounted_where_programs_look() -> None:
    pod = pod_of(spec_of(data=Path("/d"), scratch=True, network="host"))
    paths = {one["name"]: one.get("hostPath") for one in pod["volumes"]}
    assert paths["data"] == {"path": "/d"} and paths["scratch"] == {"path": "/s/scratch"}
    assert pod["hostNetwork"] and pod["dnsPolicy"] == "Default"


def test_an_end_on_its_hosts_network_asks_the_cluster_for_names_of_the_others() -> None:
    pod = pod_of(spec_of(network="host", peers_network="flannel_vxlan"))
    assert pod["hostNetwork"] and pod["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_a_service_leads_to_the_ports_of_its_program() -> None:
    ports = [Port("test", "tcp", 29400), Port("datagrams", "udp", 29400)]
    service = objects.service(spec_of(service="service-t-r1-server0", ports=ports), "node1")
    assert service["spec"]["selector"] == {"strata.program": "t-r1-client0"}
    assert [(one["protocol"], one["port"]) for one in service["spec"]["ports"]] == [
        ("TCP", 29400),
        ("UDP", 29400),
    ]
    assert service["metadata"]["labels"] == objects.labels(spec_of(), "node1"), "it goes with them"


def test_names_are_those_of_the_role() -> None:
    text = (REPO / "roles/kubernetes/templates/trials.yml.j2").read_text()
    made = {one["kind"]: one for one in yaml.safe_load_all(text)}
    assert made["Namespace"]["metadata"]["name"] == objects.NAMESPACE
    assert made["Service"]["metadata"]["name"] == objects.SERVICE
    labels = objects.labels(spec_of(), "node1")
    assert made["Service"]["spec"]["selector"].items() <= labels.items()
    may = {
        (resource, verb)
        for rule in made["Role"]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert ("jobs", "create") in may
    assert {one for one, _ in may} == {"jobs", "networkpolicies", "pods", "services"}


def test_only_pods_of_the_trial_reach_its_program() -> None:
    asked = objects.policy(spec_of(), "node1")["spec"]
    assert asked["podSelector"]["matchLabels"] == {"strata.program": "t-r1-client0"}
    (rule,) = asked["ingress"]
    assert rule == {"from": [{"podSelector": {"matchLabels": {"strata.trial": "t-r1"}}}]}


def test_an_end_on_its_hosts_own_network_is_let_in_by_address() -> None:
    asked = objects.policy(spec_of(from_hosts=["10.0.0.1", "10.218.1.1"]), "node1")["spec"]
    (rule,) = asked["ingress"]
    blocks = [one["ipBlock"] for one in rule["from"] if "ipBlock" in one]
    assert blocks == [{"cidr": "10.0.0.1/32"}, {"cidr": "10.218.1.1/32"}]


def test_a_program_with_cpus_of_its_own_asks_for_as_many_and_is_looked_at() -> None:
    given = Resources(cpus="1,3", memory=2**30)
    (container,) = pod_of(spec_of(resources=given))["containers"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": str(2**30)}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert job.unheld("1,3", {0, 1}) is job.unheld("1,3", None) is job.unheld(None, {0}) is None
    lost = job.unheld("1,3", {0, 1, 2, 3})
    assert lost and "asked for 2 CPUs of its own, it may run on 4" in str(lost)


def test_the_fingerprint_says_who_gives_pods_their_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "has", lambda name: name == "kubelet")
    settings = tmp_path / "config.yaml"
    settings.write_text("cgroupDriver: systemd\ncpuManagerPolicy: static\n")
    assert node.fingerprint(settings)["kubernetes.cpu_manager"] == "static"
    assert node.fingerprint(tmp_path / "none")["kubernetes.cpu_manager"] == "none"


# What the cluster says of a pod, as its API serialises it (docs of core/v1 PodStatus).

WAITS = {"name": "program", "ready": False, "restartCount": 0, "image": "i", "imageID": ""}
NO_ROOM = "0/2 nodes are available: 1 Insufficient memory."


def said(status: dict[str, Any]) -> Any:
    """The pod as the client has it."""
    given = {"metadata": {"name": "p"}, "spec": {"containers": []}, "status": status}
    answer = SimpleNamespace(data=json.dumps(given))
    return ApiClient().deserialize(answer, "V1Pod")


def state(kind: str, **told: Any) -> dict[str, Any]:
    one = {**WAITS, "state": {kind: told}}
    return {"phase": "Pending", "containerStatuses": [one]}


@pytest.mark.parametrize(
    ("status", "cause", "words"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "evicted", "low on"),
        (
            {
                "phase": "Running",
                "conditions": [
                    {
                        **{"type": "DisruptionTarget", "status": "True"},
                        **{"reason": "EvictionByEvictionAPI", "message": "drained"},
                    }
                ],
            },
            "evicted",
            "EvictionByEvictionAPI: drained",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {
                        **{"type": "PodScheduled", "status": "False"},
                        **{"reason": "Unschedulable", "message": NO_ROOM},
                    }
                ],
            },
            "unschedulable",
            "Insufficient memory",
        ),
        (state("waiting", reason="ErrImageNeverPull", message="not there"), "image", "not there"),
        (state("waiting", reason="RunContainerError", message="exec"), "start", "exec"),
        ({"phase": "Failed", "reason": "NodeLost", "message": "gone"}, "runtime_lost", "NodeLost"),
        # A node that was told to have less memory, and was started again.
        (
            state("terminated", exitCode=137)
            | {"phase": "Failed", "reason": "OutOfmemory", "message": "Pod was rejected"},
            "evicted",
            "OutOfmemory: Pod was rejected",
        ),
    ],
)
def test_what_will_never_run_has_its_cause(status: dict[str, Any], cause: str, words: str) -> None:
    pod = said(status)
    found = job.taken(pod) or job.trouble("MODIFIED", pod)
    assert found is not None
    assert found.cause == cause and words in str(found)


def test_a_pod_whose_container_has_ended_was_evicted_where_the_cluster_says_so() -> None:
    """Its program ends as if somebody had killed it."""
    told = {**{"type": "DisruptionTarget", "status": "True"}, "reason": "EvictionByEvictionAPI"}
    runtime = job.Kubernetes(spec_of())
    runtime._pod = "p"
    ended = state("terminated", exitCode=137)
    runtime._see("MODIFIED", said({**ended, "conditions": [{**told, "message": "drained"}]}))
    with pytest.raises(RuntimeLostError, match="drained") as lost:
        runtime.wait(0)
    assert lost.value.cause == "evicted"


KILLED = state("terminated", exitCode=137) | {"phase": "Running"}
EVICTED = {**KILLED, "phase": "Failed", "reason": "Evicted", "message": "low on memory"}


def end_of(monkeypatch: pytest.MonkeyPatch, *later: Any, signalled: bool = False) -> job.Kubernetes:
    """A program of which its node says first that it was killed, and then what `later` says."""
    monkeypatch.setattr(job, "AGAIN_S", 0.0)
    runtime = job.Kubernetes(spec_of())
    runtime._pod, pods = "p", iter(later)
    runtime._cluster = SimpleNamespace(pod=lambda _name: next(pods))
    if signalled:
        runtime._view = SimpleNamespace(
            **{"signal": lambda _number: None, "cpus": None, "whole": True},
            **{"kills": 0, "at": 1.0},
        )  # type: ignore[assignment]
        runtime.signal(signal.SIGKILL)
    runtime._see("MODIFIED", said(KILLED))
    return runtime


def test_why_a_program_was_killed_is_told_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a node's kubelet tells it: the container's state first, the pod's last phase later."""
    with pytest.raises(RuntimeLostError, match="low on memory") as lost:
        end_of(monkeypatch, said(KILLED), said(EVICTED)).wait(0)
    assert lost.value.cause == "evicted"


def test_a_program_that_killed_itself_ends_with_the_last_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = end_of(monkeypatch, said({**KILLED, "phase": "Failed"})).wait(0)
    assert ended is not None and ended.code == -9


def test_a_pod_that_somebody_removed_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    going = said(KILLED)
    going.metadata.deletion_timestamp = "2026-11-24T09:35:35Z"
    for last in (going, None):
        with pytest.raises(RuntimeLostError, match="somebody removed the pod"):
            end_of(monkeypatch, last).wait(0)


def test_nobody_asks_why_a_program_ended_that_was_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = end_of(monkeypatch, signalled=True).wait(0)
    assert ended is not None and ended.code == -9


def test_what_may_run_yet_is_waited_for() -> None:
    for status in (
        {"phase": "Pending"},
        state("waiting", reason="ContainerCreating"),
        state("running"),
    ):
        assert job.trouble("MODIFIED", said(status)) is None
        assert job.taken(said(status)) is None
        assert job.terminated(said(status)) is None
    assert job.trouble("DELETED", said({"phase": "Running"})) is not None
    assert job.terminated(said(state("terminated", exitCode=137))).exit_code == 137


def test_the_end_of_a_program_is_that_of_its_container() -> None:
    runtime = job.Kubernetes(spec_of())
    runtime._end(SimpleNamespace(exit_code=137, reason="OOMKilled"))
    ended = runtime.wait(0)
    assert ended is not None and (ended.code, ended.memory) == (-9, True)
    assert runtime.phases() == {}, "none of its parts was seen"
    runtime._times, runtime._view.began = {"made": 1.0, "scheduled": 1.25}, 3.0
    assert runtime.phases() == {"scheduling": 0.25, "sandbox": 1.75}
    lost = job.Kubernetes(spec_of())
    lost._lose(RuntimeLostError("why", "evicted"))
    with pytest.raises(RuntimeLostError, match="why"):
        lost.wait(0)


def test_an_end_that_nobody_saw_is_no_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its time would be another, and what the program has left is not here."""
    monkeypatch.setattr(job, "LEFT_S", 0.0)
    runtime = job.Kubernetes(spec_of())
    runtime._view = beside.Beside(replace(spec_of(), spool=tmp_path), None)  # type: ignore[arg-type]
    runtime._end(SimpleNamespace(exit_code=0, reason="Completed"))
    with pytest.raises(RuntimeLostError, match="not heard until the end"):
        runtime.wait(0)


# What is read of a pod on its node.


def test_the_process_of_the_program_is_found_among_others(tmp_path: Path) -> None:
    told = {"sandbox-name": "t-r1-x", "sandbox-namespace": "strata", "container-name": "program"}
    other = {**told, "sandbox-name": "t-r2-y"}
    for number, one in enumerate((other, {**told, "container-name": ""}, told), 1):
        folder = tmp_path / f"c{number}"
        folder.mkdir()
        noted = {f"io.kubernetes.cri.{key}": value for key, value in one.items()}
        (folder / "config.json").write_text(json.dumps({"annotations": noted}))
        (folder / "init.pid").write_text(str(number))
    (tmp_path / "half").mkdir()
    assert pods.process("t-r1-x", tmp_path) == 3
    assert pods.process("t-r3", tmp_path) is None


def sandbox(folder: Path, pod: str, network: str = "/run/netns/cni-1", **more: str) -> None:
    """As containerd 1.6.20 leaves one, shortened."""
    folder.mkdir()
    noted = {
        "io.kubernetes.cri.container-type": "sandbox",
        "io.kubernetes.cri.sandbox-name": pod,
        "io.kubernetes.cri.sandbox-namespace": "kube-flannel",
        **more,
    }
    spaces = [{"type": "pid"}, {"type": "network", **({"path": network} if network else {})}]
    told = {"annotations": noted, "linux": {"namespaces": spaces}}
    (folder / "config.json").write_text(json.dumps(told))


def test_a_pod_of_each_set_stands_on_the_host_or_it_is_said_which(tmp_path: Path) -> None:
    sandbox(tmp_path / "1", "probe-x7k2p", "/run/netns/cni-1")
    sandbox(tmp_path / "2", "flannel-4d9zq", network="")  # the host's own
    sandbox(tmp_path / "3", "closed-9vv8c", **{"io.kubernetes.cri.sandbox-namespace": "other"})
    sandbox(tmp_path / "4", "probe-x7k2p", **{"io.kubernetes.cri.container-type": "container"})
    (one,) = pods.sandboxes("kube-flannel", tmp_path)
    assert (one.pod, one.network) == ("probe-x7k2p", "/run/netns/cni-1")
    with pytest.raises(Refused, match="probe in kube-flannel, asked for: probe, closed"):
        ends.look("kube-flannel", ["probe", "closed"], "10.0.0.2", tasks=tmp_path)


def test_both_outputs_are_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "strata_p_u/program/0.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "2026-01-01T00:00:00.1Z stdout F one\n2026-01-01T00:00:00.2Z stderr P two \n"
        "2026-01-01T00:00:00.3Z stderr F parts\n"
    )
    assert pods.logs("p", "u", tmp_path) == (b"one\n", b"two parts\n")
    assert pods.logs("other", "u", tmp_path) == (b"", b"")


def test_an_image_is_an_archive_with_one_layer_of_its_digest(tmp_path: Path) -> None:
    tar = tmp_path / "tools.tar"
    tar.write_bytes(b"layer")
    out = io.BytesIO()
    images.write(images.ContainerdImage("tools", DIGEST), tar, out)
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as archive:
        texts = {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]
    (told,) = json.loads(texts["manifest.json"])
    assert told["RepoTags"] == [images.reference("tools", DIGEST)]
    assert json.loads(texts[told["Config"]])["rootfs"]["diff_ids"] == [f"sha256:{DIGEST}"]
    assert [texts[layer] for layer in told["Layers"]] == [b"layer"]


@pytest.mark.parametrize("size", [5, 3 * rootfs.COPIED_AT_ONCE])
def test_an_engine_that_reads_no_image_says_why(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before the image, or the last of it, is written."""
    tar = tmp_path / "tools.tar"
    tar.write_bytes(b"x" * size)
    program = tmp_path / "ctr"
    program.write_text("#!/bin/sh\necho no space left on device >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(Refused, match=r"does not hold image 0123456789ab after the import") as told:
        images.ContainerdImage("tools", DIGEST).load(tar)
    assert "no space left on device" in str(told.value)


def test_a_host_without_a_cluster_has_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker's `ctr` is no node's: nothing is asked of an engine that may not run."""
    monkeypatch.setattr(node, "CONFIG", tmp_path / "none")
    monkeypatch.setattr(images, "has", lambda program: program == "ctr")
    monkeypatch.setitem(sys.modules, "kubernetes", None)  # the client is not even imported
    assert kubernetes.leftovers() == []
    assert images.ContainerdImage("", "").others() == []
    assert node.version("Kubernetes v1.35.4\n") == "1.35.4"
    assert node.version("nothing") is None
    assert "root" in node.why_not(root=False, apt=True)
    assert "virtual environment" in why_not({"why_not": ""}, "venv")


def test_pods_that_stay_hold_up_the_next_trial_and_a_cluster_that_is_away_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = [cluster.StuckError("pods of strata.node=node1 do not go"), OSError("no route to host")]

    class Answers:
        place = objects.Place("node1")

        def remove(self, _: str) -> list[str]:
            raise said.pop(0)

        def close(self) -> None:
            closed.append(self)

    closed: list[Answers] = []
    monkeypatch.setattr(cluster, "Cluster", Answers)
    with pytest.raises(Refused, match=r"pods of strata\.node=node1 do not go from node1"):
        cluster.leftovers()
    assert cluster.leftovers() == []
    assert len(closed) == 2


def test_what_has_pods_has_them_on_the_hosts_of_the_setting() -> None:
    network = pod_network.Network("flannel", ["node1", "node2"], [], [])
    kept = {"hostNetwork": True}
    told = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": {"spec": kept}}}
    bound = network.bound(told)["spec"]["template"]["spec"]
    assert bound["hostNetwork"] and kept == {"hostNetwork": True}
    affinity = bound["affinity"]["nodeAffinity"]
    assert affinity == objects.on("node1", "node2")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}
    assert network.bound(other) == other
