"""What a pod sees of its node, and what it does not: on files, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused
from strata.fields import UNOBSERVED
from strata.host import agent, built, counters, fingerprint, processes
from strata.host.sampler import Sample, spent


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """This machine as if it were a pod of the node `node1`; what its agent is told."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    said = {
        **{"boot": boot, "whole": False, "networks": ["cluster"], "address": "10.0.0.7"},
        "told": {"os.name": "Some Linux 9", "kubernetes.kubelet": "1.35.4"},
    }
    (tmp_path / "mounts").write_text("")
    monkeypatch.setattr(agent, "FILE", tmp_path / "agent.json")
    monkeypatch.setattr(agent, "MOUNTS", tmp_path / "mounts")
    monkeypatch.setenv(agent.NODE, "node1")
    agent.here.cache_clear()
    yield said
    agent.here.cache_clear()


def begin(said: dict[str, Any]) -> None:
    agent.FILE.write_text(json.dumps({"node1": said}))


def test_a_host_that_is_no_agent_sees_all(pod: dict[str, Any]) -> None:
    assert agent.here() is None and agent.sees_processes() and agent.root() == Path("/")


def test_a_pods_own_values_are_not_its_nodes(pod: dict[str, Any], tmp_path: Path) -> None:
    before = fingerprint.capture(tmp_path)
    agent.here.cache_clear()
    begin(pod)
    seen = fingerprint.capture(tmp_path)
    assert seen["cpu.model"] == before["cpu.model"] and seen["kernel.release"]
    assert seen["os.name"] == "Some Linux 9" and seen["kubernetes.kubelet"] == "1.35.4"
    assert {key: seen[key] for key in ("nic", "gpu", "virtualisation", "accelerator")} == (
        dict.fromkeys(("nic", "gpu", "virtualisation", "accelerator"), UNOBSERVED)
    )
    assert not [key for key in seen if key.startswith(("nic.", "gpu."))]
    assert built.capture() == dict.fromkeys(built.FAMILIES, UNOBSERVED)
    totals = counters.totals()
    assert totals.net_received is None and totals.cpu_busy > 0
    assert counters.rates(totals, totals, 1.0)["net_sent"] is None
    assert processes.Daemons(["kubelet"]).cpu() is None


def test_who_used_the_cpus_is_not_told_where_the_platform_is_not_seen(pod: dict[str, Any]) -> None:
    begin(pod)
    one = Sample(0.0, counters.totals(), 0.0, {}, None)
    found = spent(one, Sample(1.0, counters.totals(), 0.5, {}, None), ())
    assert (found.platform, found.others, found.strata) == (None, None, 0.5)


def test_an_agent_with_all_rights_sees_its_node(pod: dict[str, Any], tmp_path: Path) -> None:
    begin({**pod, "whole": True})
    seen = fingerprint.capture(tmp_path)
    assert UNOBSERVED not in seen.values() and seen["os.name"] == "Some Linux 9"
    assert agent.root() == Path("/proc/1/root")
    assert counters.totals().net_received is not None


def test_a_pod_with_a_kernel_of_its_own_is_refused(pod: dict[str, Any]) -> None:
    begin({**pod, "boot": "another"})
    with pytest.raises(Refused, match="what its node's kernel tells"):
        agent.here()
    agent.MOUNTS.write_text("lxcfs /proc/stat fuse.lxcfs rw 0 0\n")
    begin(pod)
    with pytest.raises(Refused, match="lxcfs"):
        agent.here()
