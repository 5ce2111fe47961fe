"""What is compared runs on the same hosts; where it cannot, the plan says so."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from strata.errors import Refused

from controller import plan
from controller.experiment import Experiment

BASE: dict[str, Any] = {
    **{"name": "t", "title": "t", "workload": "spin", "baseline": {"runtime": "native"}},
    **{"factors": {"runtime": ["native", "docker"]}, "repeats": 4},
}
BOTH = ("native", "docker")


def make(hosts: list[plan.Host], **changes: Any) -> plan.Plan:
    return plan.make(Experiment.model_validate({**BASE, **changes}), hosts)


def host(name: str, *runtimes: str, substrate: str = "bare_metal", **facts: Any) -> plan.Host:
    return plan.Host(name, substrate, runtimes or BOTH, 4, **facts)


def where(made: plan.Plan, *names: str) -> dict[Any, set[str]]:
    """The hosts of all slots, by some of their levels."""
    found = defaultdict(set)
    for slot in made.slots:
        levels = slot.trials[0].levels
        found[tuple(levels[name] for name in names)].update(slot.hosts)
    return dict(found)


def test_arms_share_the_hosts_that_both_can_have() -> None:
    made = make([host("n1", "native"), host("n2"), host("n3"), host("n4", "docker")])
    assert where(made, "runtime") == {("native",): {"n2", "n3"}, ("docker",): {"n2", "n3"}}
    rounds = defaultdict(set)
    for slot in made.slots:
        rounds[slot.trials[0].repetition].add(tuple(slot.hosts))
    assert all(len(hosts) == 1 for hosts in rounds.values())
    assert made.confounds == []


def test_arms_without_a_host_in_common_are_a_named_confound() -> None:
    made = make([host("n1", "native"), host("n2", "docker")])
    assert made.confounds == [
        {
            "what": "docker/bridge against native/host",
            "why": "n2 against n1: what else differs between them counts too",
        }
    ]


def test_a_substrate_is_confounded_with_its_hosts() -> None:
    made = make(
        [host("metal"), host("virtual", substrate="vm")],
        baseline={"substrate": "bare_metal", "runtime": "native"},
    )
    assert [item["what"] for item in made.confounds] == [
        "vm against bare_metal",
        "vm/docker/bridge against bare_metal/native/host",
    ]


def test_a_host_that_an_arm_cannot_have_after_all_is_no_other_arms() -> None:
    made = make([host("n1", missing={"docker": "no root"}), host("n2")])
    assert where(made, "runtime") == {("native",): {"n2"}, ("docker",): {"n2"}}


def test_a_case_of_more_hosts_does_not_part_the_arms_of_the_others() -> None:
    """Docker is on one host: only native trials can have two workers, and they need both."""
    changes = {
        "workload": "tf_image_classification",
        "factors": {**BASE["factors"], "workers": [1, 2]},
        "options": {"model": "tiny", "distribution": "ring"},
    }
    made = make([host("n1", "native"), host("n2")], **changes)
    assert where(made, "runtime", "workers") == {
        ("native", 1): {"n2"},
        ("docker", 1): {"n2"},
        ("native", 2): {"n1", "n2"},
    }
    assert made.confounds == []
    assert [item["what"] for item in made.left_out] == ["docker on bare_metal with 2 workers"]


def asked(**facts: Any) -> dict[str, Any]:
    """What a host with two CPUs and no GPU answers."""
    has = {"cpus": frozenset({0, 1}), "nodes": frozenset({0}), "gpus": frozenset()}
    return {**has, "memory_total": 2**33, **facts}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpus": ["0"]}, "n1 lacks GPU 0, of none"),
        ({"cpus": "0-7"}, "n1 lacks CPU 2-7, of 0-1"),
        ({"numa": 1}, "n1 lacks NUMA node 1, of 0"),
        ({"quota": 3.5}, "n1 lacks 3.5 CPUs, of 2"),
        ({"memory": "16G"}, "n1 lacks 16 GiB of memory, of 8 GiB"),
        ({"beside": "job"}, "n1 lacks CPU 5, of 0-1"),
    ],
)
def test_resources_that_no_host_has_are_refused(options: dict[str, Any], words: str) -> None:
    changes = {"options": options, "backgrounds": {"job": {"cpus": "5"}}}
    make([host("n1")], **changes)
    with pytest.raises(Refused, match="no host of the testbed has") as refused:
        make([host("n1", **asked())], **changes)
    assert words in str(refused.value)


def test_a_cell_runs_where_its_resources_are() -> None:
    hosts = [host("n1", **asked()), host("n2", **asked(gpus=frozenset({"0"})))]
    assert where(make(hosts, options={"gpus": ["0"]})) == {(): {"n2"}}


def test_a_cluster_that_exists_has_its_own_network_and_no_other_host_has_it() -> None:
    given: dict[str, Any] = {"factors": {"network": ["cluster", "flannel_vxlan"]}, "repeats": 1}
    given["options"] = {"runtime": "kubernetes"}
    theirs = host("n1", "kubernetes", networks=("cluster",))
    ours = host("n1", "kubernetes")
    for hosts, left, why in (
        ([theirs], "cluster", "flannel_vxlan is no network of a cluster that is used as it is"),
        ([ours], "flannel_vxlan", "cluster is the network of a cluster that exists already"),
    ):
        made = make(hosts, **given, baseline={"network": left})
        assert where(made, "network").keys() == {(left,)}
        assert why in made.left_out[0]["why"]
