"""A cluster that was made from an older checkout, upgraded to the version of this one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import lab
from tests.conftest import PATIENCE_S, REPO, environment
from tools import kubernetes_offline

pytestmark = [pytest.mark.root, pytest.mark.docker]

OLDER, NEWER = "1.35.3", kubernetes_offline.read("kubernetes")["version"]
# Kept beside the environment: a cache has what the manifests of its own checkout say.
CACHE = REPO / ".venv/kubernetes-older"
NOT_OURS = shutil.ignore_patterns(".git", ".venv", ".cache", "results", "__pycache__", ".*_cache")
CALL = "tests/data/playbooks/cluster.yml"


@dataclass
class Upgraded:
    """The nodes, the older checkout, and with what both checkouts reach the cluster."""

    cluster: lab.Cluster
    older: Path
    kubeconfig: Path

    def begin(self, tree: Path, playbook: str, *more: str) -> subprocess.Popen[str]:
        given = ["-i", str(self.cluster.inventory), f"-ekubernetes_kubeconfig={self.kubeconfig}"]
        given += [f"-estrata_root={tree}", *more]
        return subprocess.Popen(
            ["ansible-playbook", playbook, *given],
            cwd=tree,
            env={**environment(), "ANSIBLE_CONFIG": str(tree / "ansible.cfg")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, tree: Path, playbook: str, *more: str, check: bool = True) -> str:
        process = self.begin(tree, playbook, *more)
        said, _ = process.communicate()
        assert (process.returncode == 0) == check, said[-5000:]
        assert not lab.SECRET.search(said)
        return said

    def upgrade(self, *more: str) -> str:
        return self.run(REPO, "playbooks/upgrade.yml", *more)

    def nodes(self) -> dict[str, tuple[str, bool]]:
        """Of each its version, and whether it takes pods."""
        items = json.loads(self.kubectl("get nodes -o json"))["items"]
        return {
            node["metadata"]["name"]: (
                node["status"]["nodeInfo"]["kubeletVersion"],
                not node["spec"].get("unschedulable", False),
            )
            for node in items
        }

    def kubectl(self, what: str) -> str:
        return self.cluster.shell(1, f"kubectl --kubeconfig=/etc/kubernetes/admin.conf {what}")


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    """Two nodes of a cluster of the older version, made by a checkout that says so."""
    folder = tmp_path_factory.mktemp("upgrade")
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        # Beside the cluster that the other tests of this tier have in common.
        patch.setattr(lab, "NAME", "upgrade")
        patch.setattr(lab, "SUBNET", "10.201.246.0/24")
        cluster = stack.enter_context(lab.made(folder / "inventory", "kubernetes"))
        older = shutil.copytree(REPO, folder / "older", ignore=NOT_OURS)
        manifest = older / "requirements/kubernetes.yml"
        now, then = NEWER.partition(".")[2], OLDER.partition(".")[2]
        manifest.write_text(manifest.read_text().replace(now, then))
        for kind in ("mod", "sum"):
            locked = REPO / f"tests/data/kubernetes_older/kubernetes.{kind}"
            shutil.copy(locked, older / "requirements/kubernetes")
        make = [sys.executable, "tools/kubernetes_offline.py", "make", "--cache", str(CACHE)]
        subprocess.run(make, cwd=older, env=environment(), check=True)
        made = Upgraded(cluster, older, folder / "cluster.conf")
        call = (CALL, "-erole=kubernetes", "-eentry=main", f"-estrata_cache={CACHE}")
        made.run(older, *call)
        yield made
        cluster.call("kubernetes", "absent", f"-ekubernetes_kubeconfig={made.kubeconfig}")
        cluster.call("kubernetes", "prove")


def test_a_deploy_of_another_version_is_refused_before_a_node_is_touched(
    upgraded: Upgraded,
) -> None:
    call = (CALL, "-erole=kubernetes", "-eentry=main")
    said = upgraded.run(REPO, *call, check=False)
    assert f"is a node of v{OLDER}, asked for v{NEWER}" in said
    assert "playbooks/upgrade.yml" in said
    assert re.findall(r"changed=([1-9]\d*)", said) == []
    assert upgraded.cluster.shell(2, "kubelet --version").split()[-1] == f"v{OLDER}"


def test_check_mode_says_what_would_become_of_each_node(upgraded: Upgraded) -> None:
    said = upgraded.upgrade("--check")
    for node in ("node1", "node2"):
        assert f"{node}: {OLDER} to {NEWER}" in said
    assert upgraded.nodes() == dict.fromkeys(("node1", "node2"), (f"v{OLDER}", True))
    assert upgraded.cluster.shell(1, "kubeadm version -o short").strip() == f"v{OLDER}"


def test_cut_short_the_same_command_goes_on_and_a_second_time_changes_nothing(
    upgraded: Upgraded,
) -> None:
    begun = upgraded.begin(REPO, "playbooks/upgrade.yml")
    assert begun.stdout
    deadline, said = time.monotonic() + PATIENCE_S, list[str]()
    for line in begun.stdout:
        assert time.monotonic() < deadline
        said.append(line)
        if "Install the engine" in line:
            break
    else:
        pytest.fail("".join(said)[-5000:])
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    begun.stdout.close()
    assert upgraded.nodes()["node1"] == (f"v{OLDER}", False), "it was drained, and is not done"

    upgraded.upgrade()
    assert upgraded.nodes() == dict.fromkeys(("node1", "node2"), (f"v{NEWER}", True))
    pods = json.loads(upgraded.kubectl("get pods -n kube-system -o json"))["items"]
    images = {each["image"] for pod in pods for each in pod["spec"]["containers"]}
    of_cluster = {image for image in images if "/kube-" in image}
    assert len(of_cluster) == 4 and all(image.endswith(f":v{NEWER}") for image in of_cluster)

    again = upgraded.upgrade()
    assert re.findall(r"changed=([1-9]\d*)", again) == []
    deployed = upgraded.run(REPO, CALL, "-erole=kubernetes", "-eentry=main")
    assert re.findall(r"changed=([1-9]\d*)", deployed) == [], deployed[-3000:]


def test_a_network_of_pods_is_made_and_proven_on_what_was_upgraded(upgraded: Upgraded) -> None:
    given = ("-esetting_name=flannel_vxlan", f"-ekubernetes_kubeconfig={upgraded.kubeconfig}")
    cluster = upgraded.cluster
    cluster.call("flannel", "present", *given)
    cluster.call("flannel", "prove", *given, "-esetting_state=present")
    cluster.call("flannel", "absent", *given)
    cluster.call("flannel", "prove", *given, "-esetting_state=absent")
