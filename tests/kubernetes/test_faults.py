"""What may happen to a cluster under a trial, each for real: nothing false is measured."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import lab
from tests.integration.lab import (
    AGAIN,
    MEASURED,
    Lab,
    Running,
    cells,
    folder,
    journal,
    only,
    planned,
    records,
    slot_of,
    whole,
)

pytestmark = [pytest.mark.root, pytest.mark.docker]
NETWORK = "flannel_udp"
API = "/etc/kubernetes/manifests/kube-apiserver.yaml"
HELD = "/root/held.yaml"
KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/admin.conf --namespace=strata"
# As a drain asks for it, of each pod of a trial.
EVICT = f"""
for pod in $({KUBECTL} get pods -o name | cut -d/ -f2); do
  echo '{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "'$pod'"}}}}' |
    {KUBECTL} create --raw /api/v1/namespaces/strata/pods/$pod/eviction -f -
done
"""
KUBELET = "/var/lib/kubelet/config.yaml"
# A node that lacks memory, as far as it is told; and one that is told to have less to promise.
SHORT = """
evictionSoft: {memory.available: "99%"}
evictionSoftGracePeriod: {memory.available: 1s}
evictionMaxPodGracePeriod: 1
"""
LESS = """
evictionHard: {memory.available: "99%"}
"""
REMOVE_IMAGES = "ctr -n k8s.io images ls -q | grep workload: | xargs ctr -n k8s.io images rm"


@pytest.fixture
def site(deployed: lab.Cluster) -> Iterator[Lab]:
    """The nodes as tests run site.yml on them; they are whole afterwards, whatever a test did."""
    yield Lab(deployed.inventory, ["node1", "node2"], {})
    deployed.shell(1, f"[ ! -e {HELD} ] || mv {HELD} {API}")


def begun(site: Lab, deployed: lab.Cluster, results: Path) -> Running:
    """A run that measures on the network: its server has answered."""
    running = site.begin("cluster_faults", results)
    measuring(running, deployed, NETWORK)
    return running


def measuring(running: Running, deployed: lab.Cluster, network: str) -> int:
    """Wait until a trial on that network measures; the node on which it was seen."""

    nodes: list[int] = []

    def seen() -> bool:
        last = (journal(running.results) or [{"event": ""}])[-1]
        if last["event"] != "slot_started":
            return False
        levels = slot_of(running.results, last["slot"])["trials"][0]["levels"]
        nodes[:] = [node for node in (1, 2) if deployed.shell(node, f"{MEASURED} || true")]
        return levels["network"] == network and bool(nodes)

    running.until(seen, f"a trial on {network}")
    return nodes[0]


def switches(results: Path) -> list[str]:
    names = ("setting_begun", "setting_proven", "setting_failed", "setting_left")
    return [e["event"].removeprefix("setting_") for e in journal(results) if e["event"] in names]


def test_the_run_is_killed_in_a_switch(site: Lab, deployed: lab.Cluster, tmp_path: Path) -> None:
    """The same command ends the half-made network first, and proves that."""
    results = tmp_path / "results"
    running = site.begin("cluster_faults", results)
    running.until(lambda: switches(results) == ["begun"], "a switch")
    half = "ls -d /etc/cni/net.d/10-flannel.conflist 2>/dev/null || true"
    running.until(lambda: deployed.shell(2, half), "a half-made network")
    running.kill()
    assert switches(results) == ["begun"]
    site.site("cluster_faults", results)
    assert switches(results) == ["begun", "left", "begun", "proven", "left"]
    assert whole(results)


def test_the_network_dies_under_a_trial(site: Lab, deployed: lab.Cluster, tmp_path: Path) -> None:
    """Its program is killed and does not come back: the trial fails, the block is made again."""
    results = tmp_path / "results"
    running = begun(site, deployed, results)
    # By its tolerations its pods leave the node: nobody starts the program again there.
    deployed.shell(2, "pkill -KILL -x flanneld; ip link delete flannel0 2>/dev/null || true")
    deployed.shell(
        2, "ip route delete 10.218.0.0/16 2>/dev/null; ip route add unreachable 10.218.0.0/24"
    )
    assert running.end() == 0, running.text()[-4000:]
    lost = only(results)
    assert len(lost) == 1, lost
    print(lost, records(results)[next(iter(lost))]["reason"])
    assert switches(results) == ["begun", "proven", "failed", "left", "begun", "proven", "left"]
    run = folder(results)
    assert run
    site.site("cluster_faults", results, AGAIN, f"-estrata_run={run.name}")
    assert whole(results)


def test_the_control_plane_is_gone(site: Lab, deployed: lab.Cluster, tmp_path: Path) -> None:
    """Nothing can be left then: the run stops and says so, and goes on when it is back."""
    results = tmp_path / "results"
    running = begun(site, deployed, results)
    deployed.shell(1, f"mv {API} {HELD}; pkill -KILL -x kube-apiserver")
    assert running.end() != 0
    assert "the setting flannel_udp could not be left" in running.text()
    lost = only(results)
    print(lost)
    assert lost, "the trial that was under way, or the one after it"
    deployed.shell(1, f"mv {HELD} {API}")
    site.site("cluster_faults", results, AGAIN)
    assert whole(results)


def test_what_a_cluster_does_to_a_pod_is_the_cause_on_the_record(
    site: Lab, deployed: lab.Cluster, tmp_path: Path
) -> None:
    """Killed for memory, and without room on a node."""
    results = tmp_path / "results"
    site.site("cluster_causes", results)
    found = records(results).values()
    causes = {
        (record["levels"]["fail"], record["levels"]["quota"]): record["reason"] for record in found
    }
    print(causes)
    assert causes["no", None] is None
    assert causes["memory", None]["cause"] == "memory"
    assert causes["no", 1.5]["cause"] == "unschedulable"
    assert "Insufficient cpu" in causes["no", 1.5]["message"]


@pytest.mark.parametrize(
    ("told", "words"),
    [(SHORT, "low on resource: memory"), (LESS, "OutOfmemory")],
    ids=["short", "less"],
)
def test_a_pod_that_its_node_ends(
    site: Lab, deployed: lab.Cluster, tmp_path: Path, told: str, words: str
) -> None:
    """Its container ends first, as if its program had been killed."""
    results = tmp_path / "results"
    running = site.begin("cluster_causes", results, "-estrata_slice=one")
    node = measuring(running, deployed, "host")
    deployed.shell(node, f"cp {KUBELET} {KUBELET}.kept; echo '{told}' >>{KUBELET}")
    try:
        deployed.shell(node, "systemctl restart kubelet")
        assert running.end() != 0
    finally:
        deployed.shell(node, f"mv {KUBELET}.kept {KUBELET}; systemctl restart kubelet")
        wait = "wait --for=condition=MemoryPressure=False --timeout=120s nodes --all"
        deployed.shell(1, f"{KUBECTL} {wait}")
    (record,) = records(results).values()
    assert record["reason"]["cause"] == "evicted" and words in record["reason"]["message"]


def test_a_pod_that_is_drained_and_an_image_that_is_gone(
    site: Lab, deployed: lab.Cluster, tmp_path: Path
) -> None:
    """The same command, told to try those again for which the image was gone, brings that back."""
    results, slice_name = tmp_path / "results", "-estrata_slice=ended"
    running = site.begin("cluster_causes", results, slice_name)
    measuring(running, deployed, "host")
    deployed.shell(1, EVICT)
    deployed.shell(1, REMOVE_IMAGES)
    deployed.shell(2, REMOVE_IMAGES)
    assert running.end() != 0
    assert "No measured trial has ended well" in running.text()
    reasons = [r["reason"] for r in sorted(records(results).values(), key=lambda r: r["position"])]
    print(reasons)
    assert [reason["cause"] for reason in reasons] == ["evicted", "image"]
    assert "EvictionAPI" in reasons[0]["message"]
    run = folder(results)
    assert run
    again = '-e{"strata_retry": ["image"]}'
    site.site("cluster_causes", results, slice_name, again, f"-estrata_run={run.name}")
    assert len(cells(results)) == 1 and len(planned(results)) == 2, only(results)


def test_a_node_is_powered_off_and_on_again(
    site: Lab, deployed: lab.Cluster, tmp_path: Path
) -> None:
    """A trial of its is lost; the same command leaves what is left of the network, and goes on."""
    results = tmp_path / "results"
    running = begun(site, deployed, results)
    container = f"rehearsal-{lab.NAME}-node2"
    subprocess.run(["docker", "kill", container], check=True, capture_output=True)
    assert running.end() != 0
    assert "No longer reachable: node2" in running.text()
    assert set(only(results).values()) == {"host_lost"}
    lab.rehearse(deployed.inventory)
    site.site("cluster_faults", results, AGAIN)
    assert whole(results)
    assert set(only(results).values()) == {"host_lost"}
