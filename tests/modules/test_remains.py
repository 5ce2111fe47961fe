"""What a cluster leaves on a host goes from a real kernel, and what is of others stays.

Each test has network namespaces of its own, which go with it.
"""

from __future__ import annotations

import json

import pytest

from tests.modules.test_network import within

pytestmark = pytest.mark.root

ACT = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from strata.host import remains
subprocess.run(["/bin/sh", "-ec", sys.argv[2]], check=True)
asked = json.loads(sys.argv[3])
before = remains.found(asked)
remains.remove(asked)
left = subprocess.run(
    ["/bin/sh", "-ec", "ip -o link; ip route show table all; ip rule; iptables-save"],
    capture_output=True, text=True, check=True,
).stdout
print(json.dumps([before, remains.found(asked), left]))
"""
FLANNEL = """
ip link set lo up
ip link add lab type bridge; ip addr add 10.1.0.1/24 dev lab; ip link set lab up
ip link add flannel.1 type vxlan id 1 dstport 8472; ip link set flannel.1 up
ip link add veth0a1b2c3d type veth peer name docker0a1
ip route add 10.214.1.0/24 via 10.214.1.0 dev flannel.1 onlink
ip route add 10.214.2.0/24 via 10.1.0.2
ip route add 10.215.0.0/16 via 10.1.0.2
iptables -t nat -N FLANNEL-POSTRTG; iptables -t nat -N DOCKER
iptables -t nat -A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
iptables -t nat -A POSTROUTING -s 10.1.0.0/24 -j MASQUERADE
iptables -N KUBE-FIRST; iptables -N KUBE-SECOND; iptables -A KUBE-FIRST -j KUBE-SECOND
iptables -A KUBE-SECOND -j DROP; iptables -A INPUT -j KUBE-FIRST
ip6tables -N KUBE-FIRST
ip route add blackhole 10.214.9.0/26 proto 80
ip rule add fwmark 0x200/0xf00 lookup 2004 priority 9; ip rule add fwmark 7 lookup 77
ip route add local default dev lo table 2004; ip route add 10.3.0.0/16 dev lab table 77
"""
ASKED = {
    "links": ["flannel.1", "cni0", "veth????????"],
    "routes": ["10.214.0.0/16"],
    "chains": ["FLANNEL-", "KUBE-"],
    "rules": ["flanneld"],
    "tables": ["2004", "2005"],
}


def test_all_of_it_is_found_and_goes_and_the_rest_stays() -> None:
    before, after, left = json.loads(within(ACT, FLANNEL, json.dumps(ASKED)))
    assert before["links"] == ["flannel.1", "veth0a1b2c3d"]
    assert before["routes"] == ["10.214.1.0/24", "10.214.2.0/24", "10.214.9.0/26"]
    assert before["tables"] == ["9 to 2004"]
    assert before["chains"] == [
        "ip6tables filter KUBE-FIRST",
        "iptables filter KUBE-FIRST",
        "iptables filter KUBE-SECOND",
        "iptables nat FLANNEL-POSTRTG",
    ]
    assert len(before["rules"]) == 2
    assert after == {}
    for kept in ("lab", "10.215.0.0/16 via 10.1.0.2", ":DOCKER - ", "-s 10.1.0.0/24 -j MASQ"):
        assert kept in left
    assert "lookup 77" in left and "10.3.0.0/16 dev lab table 77" in left
    assert "2004" not in left


def test_a_control_group_goes_with_those_in_it() -> None:
    group = "/sys/fs/cgroup/pids/strata-test-remains"
    setup = f"mkdir -p {group}/kubepods/a/b {group}/kubepods.slice"
    asked = json.dumps({"paths": ["/sys/fs/cgroup/*/strata-test-remains*"]})
    before, after, _ = json.loads(within(ACT, setup, asked))
    assert (before, after) == ({"paths": [group]}, {})
