"""The cluster that the role makes: the same a second time, as little rights as will do, gone."""

from __future__ import annotations

import re

from .conftest import NODES, Cluster


def unchanged(said: str) -> bool:
    return len(re.findall(r"^node\d .*changed=0 ", said, re.MULTILINE)) == len(NODES)


def test_a_second_time_changes_nothing(cluster: Cluster) -> None:
    for more in ([], ["--check", "--diff"]):
        said = cluster.play("playbooks/slurm", *more)
        assert unchanged(said), said[-4000:]


def test_it_knows_its_nodes_and_gives_no_more_rights_than_it_needs(cluster: Cluster) -> None:
    said = cluster.on("node2", "sinfo --noheader --Node --format='%N %t %P %f'")
    assert said.split("\n")[:2] == ["node1 idle lab* (null)", "node2 idle lab* second"]
    keys = {cluster.on(node, "sha256sum /etc/munge/munge.key") for node in NODES}
    assert len(keys) == 1
    for node in NODES:
        assert cluster.on(node, "stat --format='%U %a' /etc/munge/munge.key") == "munge 400\n"
    accounts = {"slurmctld": "slurm", "slurmd": "root", "munge": "munge"}
    for unit, account in accounts.items():
        pid = f"$(systemctl show --property=MainPID --value {unit})"
        assert cluster.on("node1", f"stat --format=%U /proc/{pid}") == f"{account}\n"


def test_a_cluster_of_somebody_else_is_kept_away_from(cluster: Cluster) -> None:
    cluster.on("node2", "mv /etc/slurm/strata /root/mark")
    try:
        said = cluster.play("playbooks/slurm", check=False)
        assert "a host is of one Slurm cluster only" in said and "node2 has" in said
        assert unchanged(said)
        cluster.play("playbooks/slurm", "-estate=absent", "--limit=node2,localhost", check=False)
        assert cluster.on("node2", "systemctl is-active slurmd") == "active\n"
    finally:
        cluster.on("node2", "mv /root/mark /etc/slurm/strata")
