"""A cluster that exists, used through its kubeconfig: refused, had, measured, given back.

A second inventory knows the nodes by their names alone. The images come from a registry, which
speaks TLS with a certificate that the nodes trust. Nothing of Strata's may be left in the cluster,
and nothing else of it may have changed.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import lab
from tests.conftest import EXPERIMENTS, PATIENCE_S, REPO, environment
from tests.integration.lab import folder, records
from tools import kubernetes_offline

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]

HOSTS, NAMESPACE, PORT = ("node1", "node2"), "strata-given", 5000
TRUST = "/usr/local/share/ca-certificates/registry.crt"
CONTROLLER = lab.SUBNET.replace(".0/24", ".1")
LOOK_S = 0.2
# A cluster that lets in no pod which sees the processes of its node.
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-processes-of-nodes}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - {expression: "!has(object.spec.hostPID) || !object.spec.hostPID", message: none may}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-processes-of-nodes}
spec: {policyName: no-processes-of-nodes, validationActions: [Deny]}
"""
# Somebody who may look at nodes, and no more.
GUEST = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: guest, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: guest}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: guest}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: guest}
subjects: [{kind: ServiceAccount, name: guest, namespace: default}]
"""


@dataclass
class Given:
    """The cluster as its user has it: a kubeconfig, a registry, an inventory."""

    path: Path
    kubeconfig: Path
    tools: Path
    trusted: Path

    def environment(self) -> dict[str, str]:
        found = environment()
        found["PATH"] = f"{self.tools}:{found['PATH']}"
        return {**found, "SSL_CERT_FILE": str(self.trusted)}

    def kubectl(self, *given: str, text: str = "") -> str:
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.kubeconfig}", *given],
            **{"input": text, "capture_output": True, "text": True},
            env=self.environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, hosts: tuple[str, ...] = HOSTS, **settings: Any) -> Path:
        """An inventory of these nodes."""
        inventory = self.path / "given"
        inventory.mkdir(exist_ok=True)
        given = {
            **{"strata_provider": "cluster", "cluster_kubeconfig": str(self.kubeconfig)},
            **{"cluster_namespace": NAMESPACE, "cluster_patience": PATIENCE_S},
            **{"cluster_registry": f"{CONTROLLER}:{PORT}/strata"},
            **settings,
        }
        groups = {
            "all": {"vars": {"strata_cache": str(self.path / "cache")}},
            "testbed": {"children": {"kubernetes": {"hosts": dict.fromkeys(hosts), "vars": given}}},
            "vm": {"hosts": dict.fromkeys(hosts)},
        }
        (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))
        return inventory

    def play(self, name: str, *given: str, check: bool = True) -> str:
        began = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", f"{name}.yml", "-i", str(self.path / "given"), *given],
            **{"cwd": REPO, "env": self.environment(), "capture_output": True, "text": True},
            check=False,
        )
        print(f"\n{name} {' '.join(given)}: {time.monotonic() - began:.0f} s")
        said = done.stdout + done.stderr
        assert not lab.SECRET.search(said)
        assert (done.returncode == 0) is check, said[-6000:]
        return said

    def objects(self) -> set[str]:
        """What is in the cluster, but for what comes and goes by itself."""
        kinds = "namespaces,clusterroles,clusterrolebindings,customresourcedefinitions"
        kinds += ",daemonsets,deployments,services,configmaps,secrets,serviceaccounts"
        form = "-ojsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {end}"
        nodes = self.kubectl("get", "nodes", "-ojsonpath={.items[*].metadata.labels}")
        return {*self.kubectl("get", kinds, "--all-namespaces", form).split(), nodes}


def answers() -> bool:
    """Whether the registry does."""
    with contextlib.closing(socket.socket()) as asking:
        return asking.connect_ex((CONTROLLER, PORT)) == 0


@contextlib.contextmanager
def registry(path: Path) -> Iterator[Path]:
    """A registry on the controller, and what trusts it beside all that is trusted here anyway."""
    if not shutil.which("docker-registry"):
        pytest.skip("no docker-registry here, from which a cluster could pull: apt install it")
    path.mkdir()
    named = ["-subj", "/CN=registry", "-addext", f"subjectAltName=IP:{CONTROLLER}"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *named]
    made += ["-keyout", str(path / "key.pem"), "-out", str(path / "ca.pem")]
    subprocess.run(made, check=True, capture_output=True)
    usual = ssl.get_default_verify_paths().cafile
    trusted = path / "trusted.pem"
    others = Path(usual).read_text() if usual else ""
    trusted.write_text(others + (path / "ca.pem").read_text())
    asked = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(path / "data")}},
        "http": {
            "addr": f"{CONTROLLER}:{PORT}",
            "tls": {"certificate": str(path / "ca.pem"), "key": str(path / "key.pem")},
        },
    }
    (path / "config.yml").write_text(yaml.safe_dump(asked))
    with (path / "log").open("w") as log:
        serving = subprocess.Popen(
            ["docker-registry", "serve", str(path / "config.yml")], stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers():
            assert time.monotonic() < deadline
            time.sleep(LOOK_S)
        assert serving.poll() is None, "another one answers"
        yield trusted
    finally:
        serving.terminate()
        serving.wait()


@pytest.fixture(scope="module")
def given(deployed: lab.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Given]:
    """The cluster with flannel, and nodes that trust the registry; its inventory is forgotten."""
    path = tmp_path_factory.mktemp("given")
    with registry(path / "registry") as trusted:
        deployed.flannel("vxlan", "present")
        for number in (1, 2):
            to = f"rehearsal-{lab.NAME}-node{number}:{TRUST}"
            subprocess.run(["docker", "cp", "-q", path / "registry/ca.pem", to], check=True)
            deployed.shell(number, "update-ca-certificates && systemctl restart containerd")
        kubeconfig = path / "kubeconfig"
        shutil.copy(REPO / f".cache/kubernetes/{deployed.inventory.name}.conf", kubeconfig)
        tools = kubernetes_offline.folder(REPO / ".cache", "kubernetes") / "bin"
        yield Given(path, kubeconfig, tools, trusted)
        deployed.flannel("vxlan", "absent")


def asked(name: str) -> str:
    return f"-estrata_experiment={EXPERIMENTS / name}.yml"


def test_what_cannot_be_had_is_refused_before_anything_is_made(given: Given) -> None:
    before = given.objects()
    given.kubectl("apply", "-f-", text=GUEST)
    token = given.kubectl("create", "token", "guest").strip()
    theirs = yaml.safe_load(given.kubeconfig.read_text())
    theirs["users"][0]["user"] = {"token": token}
    guest = given.path / "guest"
    guest.write_text(yaml.safe_dump(theirs))
    for settings, experiment, words in (
        ({"hosts": ("node1", "node3")}, "given", "called as its nodes are"),
        ({"cluster_namespace": "strata"}, "given", "a new one, or this testbed's"),
        ({"cluster_kubeconfig": str(guest)}, "given", "create daemonsets.apps"),
        ({"cluster_context": "nobody"}, "given", "answers the account of the kubeconfig"),
        ({"cluster_registry": "example.org"}, "given", "a repository from which"),
        ({"cluster_registry": "example.org/x:latest"}, "given", "without a tag"),
        ({}, "given_networks", "host is no network of a cluster that is used as it is"),
        ({}, "cluster", "flannel_vxlan is no network of a cluster that is used as it is"),
    ):
        given.write(**settings)  # type: ignore[arg-type]
        said = " ".join(given.play("playbooks/preflight", asked(experiment), check=False).split())
        assert words in said, said[-3000:]
    given.kubectl("delete", "-f-", text=GUEST)
    assert given.objects() == before


def test_pods_that_keep_to_themselves_measure_and_go(given: Given, tmp_path: Path) -> None:
    before = given.objects()
    given.write()
    more = [asked("given"), f"-estrata_results={tmp_path}"]
    said = given.play("site", *more, "--tags=provision", "--check", check=False)
    assert "node1, node2 would be made" in said and given.objects() == before

    said = given.play("site", *more)
    found = list(records(tmp_path).values())
    assert {record["status"] for record in found} == {"ok"}, [one["reason"] for one in found]
    assert {record["levels"]["workload"] for record in found} == {"spin", "request_response"}
    for record in found:
        assert record["platform"] == "vm/kubernetes/cluster"
        assert (
            record["metrics"]["cpu"]["value"] > 0 and record["metrics"]["memory_peak"]["value"] > 0
        )
        assert {"cpu_others", "cpu_platform"} & record["metrics"].keys() == set(), "not seen"
        assert {"scheduling", "sandbox"} <= record["phases"].keys()
        assert record["metrics"]["elapsed"]["value"] < record["phases"]["startup"] + 30
    run = folder(tmp_path)
    assert run
    host = yaml.safe_load((run / "hosts/node1.json").read_text())["values"]
    assert host["nic"] == host["virtualisation"] == "unobserved"
    assert host["kubernetes.kubelet"] and host["os.name"].startswith("Debian")
    assert "unobserved" not in (host["cpu.model"], host["memory.total"], host["kernel.release"])

    said = given.play("site", *more, "--tags=deploy", f"-estrata_run={run.name}")
    assert said.count("changed=0 ") == 3, said[-3000:]
    given.play("playbooks/teardown")
    assert given.objects() == before


def test_agents_with_all_rights_see_their_nodes(given: Given, tmp_path: Path) -> None:
    before = given.objects()
    given.kubectl("apply", "-f-", text=POLICY)
    given.write(cluster_privileged=True)
    more = [asked("given_networks"), f"-estrata_results={tmp_path}"]
    said = given.play("site", *more, "--tags=provision", check=False)
    assert "a pod of agent runs on each host" in said and "none may" in said, said[-3000:]
    given.kubectl("delete", "-f-", text=POLICY)

    given.play("site", *more)
    found = list(records(tmp_path).values())
    assert {record["status"] for record in found} == {"ok"}, [one["reason"] for one in found]
    assert {record["levels"]["network"] for record in found} == {"host", "cluster"}
    for record in found:
        assert record["metrics"]["cpu_platform"]["value"] > 0, "the node's own programs are seen"
    run = folder(tmp_path)
    assert run
    host = yaml.safe_load((run / "hosts/node1.json").read_text())["values"]
    assert "unobserved" not in host.values() and host["virtualisation"] == "container"
    assert any(key.startswith("nic.") for key in host)
    given.play("playbooks/teardown")
    assert given.objects() == before


def test_an_image_that_cannot_be_pulled_is_named(
    given: Given, deployed: lab.Cluster, tmp_path: Path
) -> None:
    """The nodes trust the registry no more, and have none of its images left."""
    given.write()
    for number in (1, 2):
        deployed.shell(
            number,
            f"rm {TRUST} && update-ca-certificates --fresh"
            " && ctr -n k8s.io images ls -q | grep /strata | xargs -r ctr -n k8s.io images rm"
            " && systemctl restart containerd",
        )
    more = [asked("given"), f"-estrata_results={tmp_path}", "--tags=provision"]
    said = " ".join(given.play("site", *more, check=False).split())
    assert "a pod of agent runs on each host" in said and "ErrImagePull" in said, said[-3000:]
    assert "certificate" in said
    given.play("playbooks/teardown")
